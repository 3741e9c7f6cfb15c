package servers

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MissingError says which programs are neither there nor could be installed.
type MissingError struct {
	Programs []string
	Packages []string // Debian's names
	Reason   error
}

// Error names the missing program and the command that installs it.
func (e *MissingError) Error() string {
	missing := "there is no " + strings.Join(e.Programs, ", no ") + " here"
	if e.Reason != nil {
		missing += fmt.Sprintf(", and it could not be installed: %v", e.Reason)
	}
	missing += fmt.Sprintf("\nrun make deps, or install it yourself (on Debian and Ubuntu: apt-get install %s)", strings.Join(e.Packages, " "))
	if slices.ContainsFunc(e.Packages, func(name string) bool { return name == "postgresql" || name == "redis-server" }) {
		missing += ", or name servers that run: in DATABASE_URL and REDIS_URL for make dev, in EXAMPREP_TEST_DATABASE_URL and EXAMPREP_TEST_REDIS_URL for tests"
	}
	return missing
}

// Unwrap returns the reason.
func (e *MissingError) Unwrap() error { return e.Reason }

// Need is something that must be on the machine, and where it comes from if it is not.
type Need struct {
	program  string
	packages []string
	present  func() bool
}

// Postgres is the need of PostgreSQL's server.
func Postgres() Need {
	return Need{"PostgreSQL", []string{"postgresql"}, func() bool { return postgresBin("initdb") != "" && postgresBin("postgres") != "" }}
}

// Redis is the need of Redis' server, or Valkey's.
func Redis() Need {
	return Need{"redis-server", []string{"redis-server"}, func() bool { return redisBin() != "" }}
}

// Compiler is the need of a C compiler, which Go's race detector links with.
func Compiler() Need {
	return Need{"C compiler (for -race)", []string{"gcc", "libc6-dev"}, func() bool {
		return slices.ContainsFunc([]string{os.Getenv("CC"), "cc", "gcc", "clang"}, func(name string) bool { return name != "" && Look(name) != "" })
	}}
}

// SSHKeygen is the need of ssh-keygen, with which verifiers sign seals.
func SSHKeygen() Need {
	return Need{"ssh-keygen", []string{"openssh-client"}, func() bool { return Look("ssh-keygen") != "" }}
}

// OpenSSL is the need of openssl's command.
func OpenSSL() Need {
	return Need{"openssl", []string{"openssl"}, func() bool { return Look("openssl") != "" }}
}

// Curl is the need of curl, with which tests run the commands of the documents.
func Curl() Need {
	return Need{"curl", []string{"curl"}, func() bool { return Look("curl") != "" }}
}

// NPM is the need of npm, and of some Node to run it.
func NPM() Need {
	return Need{"npm", []string{"npm"}, func() bool { return Look("npm") != "" && Look("node") != "" }}
}

// Chromium is the need of the browser that shows the reference page.
func Chromium() Need {
	return Need{"chromium", []string{"chromium"}, func() bool { return Look("chromium") != "" }}
}

// LibreOffice is the need of the office program that opens and saves sheets.
func LibreOffice() Need {
	return Need{"LibreOffice Calc", []string{"libreoffice-calc-nogui"}, func() bool { return Look("soffice") != "" }}
}

// PgBouncer is the need of the pooler of connections to PostgreSQL.
func PgBouncer() Need {
	return Need{"PgBouncer", []string{"pgbouncer"}, func() bool { return Look("pgbouncer") != "" }}
}

// NginxModules is where Debian's nginx has its modules.
const NginxModules = "/usr/lib/nginx/modules"

// NginxLua is the need of nginx with its lua module.
func NginxLua() Need {
	return Need{"nginx with lua", []string{"nginx", "libnginx-mod-http-lua"}, func() bool {
		_, err := os.Stat(filepath.Join(NginxModules, "ngx_http_lua_module.so"))
		return err == nil && Look("nginx") != ""
	}}
}

//go:embed install.sh
var installScript string

// Require returns an error that names what is missing. It installs nothing.
func Require(needs ...Need) error {
	if missing := missingOf(needs); len(missing.Programs) > 0 {
		return missing
	}
	return nil
}

func missingOf(needs []Need) *MissingError {
	missing := &MissingError{}
	for _, need := range needs {
		if !need.present() {
			missing.Programs = append(missing.Programs, need.program)
			missing.Packages = append(missing.Packages, need.packages...)
		}
	}
	return missing
}

// Install installs the packages of needs that are not met. It prints their names to out first.
func Install(ctx context.Context, out io.Writer, needs ...Need) error {
	m := machine{look: Look, root: os.Geteuid() == 0, run: runInstallScript}
	return m.install(ctx, out, needs...)
}

// machine is where packages are installed.
type machine struct {
	look func(program string) (path string) // "" if it is not there
	root bool                               // whether this process runs as root
	// run runs a command that reads install.sh and returns its output.
	run func(ctx context.Context, command []string) (said string, err error)
}

func (m machine) install(ctx context.Context, out io.Writer, needs ...Need) error {
	missing := missingOf(needs)
	if len(missing.Programs) == 0 {
		return nil
	}
	if missing.Reason = m.installPackages(ctx, out, missing.Packages); missing.Reason != nil {
		return missing
	}
	for _, need := range needs {
		if !need.present() {
			missing.Reason = fmt.Errorf("%s is not found after installing %s", need.program, strings.Join(need.packages, " "))
			return missing
		}
	}
	return nil
}

func (m machine) installPackages(ctx context.Context, out io.Writer, packages []string) error {
	if m.look("apt-get") == "" {
		return fmt.Errorf("there is no apt-get")
	}
	command := []string{"sh", "-s", "--"}
	if !m.root {
		if m.look("sudo") == "" {
			return fmt.Errorf("neither root nor sudo")
		}
		command = append([]string{"sudo", "-n"}, command...)
	}
	fmt.Fprintf(out, "installing %s from the machine's packages\n", strings.Join(packages, ", "))
	if said, err := m.run(ctx, append(command, packages...)); err != nil {
		return fmt.Errorf("apt-get: %w\n%s", err, said)
	}
	return nil
}

func runInstallScript(ctx context.Context, command []string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var said strings.Builder // shown only if the script fails
	cmd.Stdin = strings.NewReader(installScript)
	cmd.Stdout, cmd.Stderr = &said, &said
	// Interrupted, the script puts back what it changed; killed, it could not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err := cmd.Run()
	return said.String(), err
}

// Look finds a program in PATH and in the system's directories, which an unprivileged user's PATH may lack; "" if it is in
// none of them.
func Look(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin", "/opt/homebrew/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// redisBin is the path of redis-server or valkey-server, "" if there is neither.
func redisBin() string {
	if path := Look("redis-server"); path != "" {
		return path
	}
	return Look("valkey-server")
}

// postgresBin is the path of one of PostgreSQL's programs: of the newest version in Debian's directories, which are not
// in PATH, else in PATH; "" if there is none.
func postgresBin(name string) string {
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is well-formed
	newest, path := -1, ""
	for _, candidate := range paths {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(candidate))))
		if err == nil && version > newest {
			newest, path = version, candidate
		}
	}
	if path != "" {
		return path
	}
	return Look(name)
}

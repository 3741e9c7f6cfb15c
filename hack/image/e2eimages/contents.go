package main

import (
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// user runs what is in the images; the official images of PostgreSQL and Redis have the same.
const user = 999

//go:embed postgres.sh
var postgresEntry []byte

// postgresImage holds the newest PostgreSQL of Debian's directories, without its compiler of queries: that would bring LLVM.
func postgresImage(ctx context.Context) (*image, error) {
	homes, err := filepath.Glob("/usr/lib/postgresql/*")
	if err != nil || len(homes) == 0 {
		return nil, errors.New("there is no PostgreSQL in /usr/lib/postgresql; on Debian: apt-get install postgresql")
	}
	home := homes[len(homes)-1]
	i := newImage()
	i.entrypoint = []string{"/bin/sh", "/entrypoint.sh"}
	i.command = []string{"postgres"}
	i.env = []string{"PATH=" + filepath.Join(home, "bin") + ":/usr/bin:/bin", "PGDATA=/var/lib/postgresql/data/pgdata"}
	i.text("/entrypoint.sh", postgresEntry)
	i.text("/etc/passwd", []byte("postgres:x:999:999::/var/lib/postgresql:/bin/sh\n"))
	var programs []string
	for _, name := range []string{"postgres", "initdb", "psql", "pg_dump", "pg_restore", "createdb", "dropdb", "pg_isready"} {
		programs = append(programs, filepath.Join(home, "bin", name))
	}
	libraries, err := filepath.Glob(filepath.Join(home, "lib", "*.so"))
	if err != nil {
		return nil, err
	}
	for _, library := range libraries {
		if !strings.Contains(library, "llvmjit") {
			programs = append(programs, library)
		}
	}
	return i, errors.Join(
		i.programs(ctx, append(programs, "/bin/sh")...),
		i.folder("/usr/share/postgresql/"+filepath.Base(home)),
		i.folder("/usr/share/zoneinfo"))
}

// redisImage holds redis-server and redis-cli, or Valkey's under their names.
func redisImage(ctx context.Context) (*image, error) {
	i := newImage()
	i.command = []string{"redis-server"}
	i.env = []string{"PATH=/usr/bin"}
	for _, name := range []string{"redis-server", "redis-cli"} {
		path, err := exec.LookPath(name)
		if err != nil {
			if path, err = exec.LookPath(strings.Replace(name, "redis", "valkey", 1)); err != nil {
				return nil, errors.New("there is no " + name + " in PATH; on Debian: apt-get install redis-server")
			}
		}
		if err := i.programs(ctx, path); err != nil {
			return nil, err
		}
		i.files["/usr/bin/"+name] = source{path: path, mode: 0o755}
	}
	return i, nil
}

// receiverImage holds one static binary.
func receiverImage(binary string) *image {
	i := newImage()
	i.entrypoint = []string{"/receiver"}
	i.files["/receiver"] = source{path: binary, mode: 0o755}
	return i
}

// programs takes programs and libraries in, with every library that they load when they start.
func (i *image) programs(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		i.files[path] = source{path: path, mode: 0o755}
	}
	listing, err := exec.CommandContext(ctx, "ldd", paths...).Output()
	if err != nil {
		return errors.Join(errors.New("ldd "+strings.Join(paths, " ")), err)
	}
	for line := range strings.Lines(string(listing)) {
		if strings.Contains(line, "not found") {
			return errors.New(strings.TrimSpace(line))
		}
		// "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)", or the loader: "/lib64/ld-linux-x86-64.so.2 (0x…)".
		for field := range strings.FieldsSeq(line) {
			if strings.HasPrefix(field, "/") && !strings.HasSuffix(field, ":") {
				i.files[field] = source{path: field, mode: 0o755}
			}
		}
	}
	return nil
}

// folder takes in all files below a folder, what links lead to in their place.
func (i *image) folder(root string) error {
	return filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		i.files[path] = source{path: path, mode: 0o644}
		return nil
	})
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// settings are what the command line asks for.
type settings struct {
	// source is the checkout's root.
	source string
	// output is the archive to write, reference the image's name in it, and push where to send it instead.
	output, reference, push string
	// rootfs is a folder for the image's files; nothing else is made then.
	rootfs    string
	platforms []v1.Platform
	version   string
	revision  string
	// created is the time that everything in the image carries.
	created time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	s, err := parse(ctx, args)
	if err != nil {
		return err
	}
	if s.rootfs != "" {
		return writeRootfs(ctx, s)
	}
	built, err := buildAll(ctx, s)
	if err != nil {
		return err
	}
	for _, one := range built {
		if err := report(stdout, one); err != nil {
			return err
		}
	}
	if s.push != "" {
		return push(ctx, s, built, stdout)
	}
	return save(s, built, stdout)
}

func parse(ctx context.Context, args []string) (settings, error) {
	var s settings
	var platforms string
	set := flag.NewFlagSet("image", flag.ContinueOnError)
	set.StringVar(&s.source, "source", ".", "the checkout's root")
	set.StringVar(&s.output, "o", "dist/examprep.tar", "the archive to write; the list of what is in the image goes beside it")
	set.StringVar(&s.reference, "ref", "", "the image's name (default examprep.dev/examprep:VERSION)")
	set.StringVar(&s.push, "push", "", "a repository to send the image to instead, tagged with the version")
	set.StringVar(&s.rootfs, "rootfs", "", "write only the image's files into this folder")
	set.StringVar(&platforms, "platform", "linux/amd64", "comma-separated; several make one image with a part for each")
	set.StringVar(&s.version, "version", "", "stamped into the binary and the labels (default: git describe)")
	if err := set.Parse(args); err != nil {
		return s, err
	}
	for name := range strings.SplitSeq(platforms, ",") {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS != "linux" || platform.Architecture == "" {
			return s, fmt.Errorf("-platform: %q is not of the form linux/ARCHITECTURE", name)
		}
		s.platforms = append(s.platforms, *platform)
	}
	if err := s.describe(ctx); err != nil {
		return s, err
	}
	if s.reference == "" {
		s.reference = "examprep.dev/examprep:" + s.version
	}
	return s, nil
}

// describe fills in what git knows, where the command line and the environment leave it out. A source tree without git
// gives the version and SOURCE_DATE_EPOCH.
func (s *settings) describe(ctx context.Context) error {
	var err error
	if s.version == "" {
		if s.version, err = s.git(ctx, "describe", "--tags", "--always", "--dirty"); err != nil {
			return fmt.Errorf("-version is not given and git does not know it: %w", err)
		}
	}
	s.revision = os.Getenv("REVISION")
	if s.revision == "" {
		s.revision, _ = s.git(ctx, "rev-parse", "HEAD") // a label only: a tree without git goes without
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = s.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH is not set and git does not know the commit's time: %w", err)
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch)
	}
	s.created = time.Unix(seconds, 0).UTC()
	return nil
}

func (s *settings) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-C", s.source}, args...)...)
	out, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

func report(stdout io.Writer, one built) error {
	manifest, err := one.image.Manifest()
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	packed := manifest.Config.Size
	for _, layer := range manifest.Layers {
		packed += layer.Size
	}
	_, err = fmt.Fprintf(stdout, "%s: %.1f MiB, %.1f MiB to download, binary %s\n", one.platform.String(),
		mebibytes(one.size), mebibytes(packed), one.digest[:12])
	return err
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// save writes the archive and the list of its contents.
func save(s settings, images []built, stdout io.Writer) error {
	if err := os.MkdirAll(filepath.Dir(s.output), 0o755); err != nil {
		return err
	}
	if err := writeArchive(s, images); err != nil {
		return err
	}
	list := strings.TrimSuffix(s.output, ".tar") + ".cdx.json"
	if err := os.WriteFile(list, images[0].contents, 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "%s\n%s (%s)\n", list, s.output, s.reference)
	return err
}

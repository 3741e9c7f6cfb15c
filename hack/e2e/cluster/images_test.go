//go:build e2e

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

type images struct {
	// product and next are two builds of the product with different version stamps.
	product, next             string
	receiver, postgres, redis string
}

// Names of the images that are built here. Nothing is ever pulled by them.
const (
	productImage = "localhost/examprep-e2e/examprep:current"
	nextImage    = "localhost/examprep-e2e/examprep:next"
)

func buildImages(t *testing.T) images {
	t.Helper()
	i := images{
		product: os.Getenv("E2E_IMAGE"), next: os.Getenv("E2E_NEXT_IMAGE"), receiver: os.Getenv("E2E_RECEIVER_IMAGE"),
		postgres: os.Getenv("E2E_POSTGRES_IMAGE"), redis: os.Getenv("E2E_REDIS_IMAGE"),
	}
	dir := t.TempDir()
	var archives []string
	built := func(image *string, name, archive string) {
		if *image == "" {
			*image = name
			archives = append(archives, filepath.Join(dir, archive))
		}
	}
	if i.product == "" {
		command(t, "go", "-C", filepath.Join(root, "hack", "image"), "run", ".", "-source", "../..", "-version", "v0.0.0-e2e",
			"-ref", productImage, "-o", filepath.Join(dir, "product.tar"))
		built(&i.product, productImage, "product.tar")
	}
	if i.next == "" {
		command(t, "go", "-C", filepath.Join(root, "hack", "image"), "run", ".", "-source", "../..", "-version", "v0.0.0-e2e-next",
			"-ref", nextImage, "-o", filepath.Join(dir, "next.tar"))
		built(&i.next, nextImage, "next.tar")
	}
	if i.receiver == "" || i.postgres == "" || i.redis == "" {
		binary := filepath.Join(dir, "receiver")
		command(t, "env", "CGO_ENABLED=0", "go", "-C", root, "build", "-trimpath", "-o", binary, "./hack/receiver")
		command(t, "go", "-C", filepath.Join(root, "hack", "image"), "run", "./e2eimages", "-out", dir, "-receiver", binary)
		built(&i.receiver, "localhost/examprep-e2e/receiver:1", "receiver.tar")
		built(&i.postgres, "localhost/examprep-e2e/postgres:1", "postgres.tar")
		built(&i.redis, "localhost/examprep-e2e/redis:1", "redis.tar")
	}
	if len(archives) > 0 {
		load := strings.Fields(os.Getenv("E2E_LOAD_IMAGE"))
		if len(load) == 0 {
			t.Fatalf("E2E_LOAD_IMAGE does not say how to load images, such as 'kind load image-archive'; or name them all (go doc ./hack/e2e/cluster)")
		}
		for _, archive := range archives {
			command(t, load[0], append(load[1:], archive)...)
		}
	}
	return i
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

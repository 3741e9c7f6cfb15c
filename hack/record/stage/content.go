package stage

import (
	"context"
	"embed"
	"fmt"
	"os"
)

//go:embed fixtures
var fixtures embed.FS

// publish writes the fixture exams to a directory, seals their papers and publishes them.
func (s *Stage) publish(ctx context.Context) error {
	if err := os.CopyFS(s.dir, fixtures); err != nil {
		return fmt.Errorf("write the fixtures: %w", err)
	}
	exams := s.path("fixtures")
	if _, err := s.run(ctx, "content", "digest", "--write", "--by", "Recorder", "--at", "2026-01-15", exams); err != nil {
		return err
	}
	_, err := s.run(ctx, "content", "publish", exams)
	return err
}

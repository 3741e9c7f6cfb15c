package process

import (
	"io"
	"os"
	"strings"
)

// tailBytes is how much of a log is read for its last lines.
const tailBytes = 16 << 10

func size(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastLines returns up to n lines from the end of the file, none of them before the offset from, each indented.
func lastLines(path string, from int64, n int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, max(from, size(file)-tailBytes), tailBytes))
	if err != nil {
		return ""
	}
	trimmed := strings.TrimRight(string(text), "\n")
	if trimmed == "" {
		return "    (it said nothing)"
	}
	lines := strings.Split(trimmed, "\n")
	lines = lines[max(0, len(lines)-n):]
	return "    " + strings.Join(lines, "\n    ")
}

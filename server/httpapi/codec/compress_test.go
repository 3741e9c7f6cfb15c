package codec

import (
	"bytes"
	"path/filepath"
	"testing"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit"
)

// BenchmarkCompressQuestionPage measures the cost of compressing a page of twenty real questions. It is why pages are not
// compressed (encoding.go).
func BenchmarkCompressQuestionPage(b *testing.B) {
	const questions = 20
	data := testkit.ReadFile(b, filepath.Join(catalogtest.Folder(b), "jeebench", "questions.jsonl"))
	page := bytes.Join(bytes.SplitN(data, []byte{'\n'}, questions+1)[:questions], []byte{','})
	for _, coding := range []Coding{Brotli, Zstd, Gzip} {
		b.Run(string(coding), func(b *testing.B) {
			var compressed []byte
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				compressed = compress(coding, page)
			}
			b.ReportMetric(float64(len(compressed))/float64(len(page)), "of-the-size")
		})
	}
}

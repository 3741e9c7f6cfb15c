package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// PaperKindsAnnotation is set on an imported ExamContent with papers that are not a whole sitting: `paper_id=partial` or
// `paper_id=pool`, separated by commas.
const PaperKindsAnnotation = "examprep.dev/paper-kinds"

// chunkKey is the key of a chunk in the ConfigMaps that Import writes.
const chunkKey = "questions.jsonl"

// importedMark begins the files that Import writes, and may therefore remove.
const importedMark = "Written by `examprep content import`."

// outFile is a file to write, by its name below the output folder.
type outFile struct {
	name string
	text []byte
}

// resource is an object as it is written: v1alpha1's own types would add an empty status.
type resource struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   resourceMeta      `json:"metadata"`
	Spec       any               `json:"spec,omitempty"`
	Data       map[string]string `json:"data,omitempty"`
}

type resourceMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// render makes the exam's files: the ExamContent first. Papers move into chunks when they are big themselves, and then
// the biggest first until the rest fits. It returns none after it reported that they cannot fit.
func (i *importer) render(exam *importedExam) ([]outFile, error) {
	name := dnsName(exam.value.ExamKey)
	sizes := make([]int, len(exam.papers))
	chunks := make([]*packer, len(exam.papers))
	for n, paper := range exam.papers {
		var err error
		if sizes[n], err = appliedSize(paper.questions); err != nil {
			return nil, err
		}
		if sizes[n] > i.options.PaperBytes || len(paper.questions) > v1alpha1.MaxInlineQuestions {
			if chunks[n], err = i.pack(name, paper); err != nil {
				return nil, err
			}
		}
	}
	for {
		content := i.content(name, exam, chunks)
		size, err := appliedSize(content)
		if err != nil {
			return nil, err
		}
		if size <= i.options.ObjectBytes {
			return renderFiles(name, exam, content, chunks)
		}
		biggest := -1
		for n := range sizes {
			if chunks[n] == nil && (biggest < 0 || sizes[n] > sizes[biggest]) {
				biggest = n
			}
		}
		if biggest < 0 {
			i.reportf(exam.at, "", "the ExamContent of %s takes %d bytes without any question; the limit is %d",
				exam.value.ExamKey, size, i.options.ObjectBytes)
			return nil, nil
		}
		if chunks[biggest], err = i.pack(name, exam.papers[biggest]); err != nil {
			return nil, err
		}
	}
}

// content is the exam's resource, with the papers that are packed referring to their chunks.
func (i *importer) content(name string, exam *importedExam, chunks []*packer) resource {
	spec := exam.spec
	spec.Papers = slices.Clone(exam.spec.Papers)
	for n, packed := range chunks {
		if packed != nil {
			spec.Papers[n].Questions, spec.Papers[n].QuestionsFrom = nil, packed.refs
		}
	}
	content := resource{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExamContent",
		Metadata: resourceMeta{Name: name, Namespace: i.options.Namespace}, Spec: spec,
	}
	if kinds := exam.kinds(); kinds != "" {
		content.Metadata.Annotations = map[string]string{PaperKindsAnnotation: kinds}
	}
	return content
}

func renderFiles(name string, exam *importedExam, content resource, chunks []*packer) ([]outFile, error) {
	comments := make(map[string]string, len(exam.papers))
	for n, paper := range exam.papers {
		comments[fmt.Sprintf("spec.papers[%d].provenance", n)] = paper.value.comment()
	}
	text, err := emit(content, importedMark, comments)
	if err != nil {
		return nil, err
	}
	files := []outFile{{name: name + ".yaml", text: text}}
	for _, packed := range chunks {
		if packed != nil {
			files = append(files, packed.files...)
		}
	}
	return files, nil
}

// packer fills ConfigMaps with lines, as many into each as the limit allows.
type packer struct {
	importer *importer
	folder   string
	// base begins the ConfigMaps' names; empty is the size of one without lines.
	base  string
	empty int

	data  strings.Builder
	size  int
	refs  []v1alpha1.QuestionSource
	files []outFile
}

// pack puts a paper's questions into ConfigMaps.
func (i *importer) pack(folder string, paper *importedPaper) (*packer, error) {
	p := &packer{importer: i, folder: folder, base: dnsName(paper.value.PaperID)}
	var err error
	if p.empty, err = appliedSize(i.configMap(p.base+"-00", "")); err != nil {
		return nil, err
	}
	p.size = p.empty
	for n, question := range paper.questions {
		fits, err := p.add(question)
		if err != nil {
			return nil, err
		}
		if !fits {
			at := syntax.Position{File: i.file("questions.jsonl"), Line: paper.lines[n]}
			i.reportf(at, "", "the question alone is bigger than an object may be (%d bytes)", i.options.ObjectBytes)
		}
	}
	if err := p.flush(); err != nil {
		return nil, err
	}
	if len(p.refs) > v1alpha1.MaxChunks {
		i.reportf(paper.at, "paper_id", "paper %s needs %d ConfigMaps; a paper may have %d", paper.value.PaperID, len(p.refs), v1alpha1.MaxChunks)
	}
	return p, nil
}

// add appends a question; it returns false when no ConfigMap could hold it.
func (p *packer) add(question v1alpha1.Question) (bool, error) {
	line, err := syntax.CompactJSON(question)
	if err != nil {
		return false, err
	}
	line = append(line, '\n')
	size, err := appliedSize(string(line))
	size -= len(`""`)
	limit := p.importer.options.ObjectBytes
	if err != nil || p.empty+size > limit {
		return false, err
	}
	if p.size+size > limit {
		if err := p.flush(); err != nil {
			return false, err
		}
	}
	p.data.Write(line)
	p.size += size
	return true, nil
}

// flush ends a ConfigMap, if there is anything to put into it.
func (p *packer) flush() error {
	if p.data.Len() == 0 {
		return nil
	}
	config := p.importer.configMap(fmt.Sprintf("%s-%02d", p.base, len(p.refs)+1), p.data.String())
	text, err := emit(config, importedMark, nil)
	if err != nil {
		return err
	}
	p.refs = append(p.refs, v1alpha1.QuestionSource{
		ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: config.Metadata.Name, Key: chunkKey},
		Digest:          assemble.ChunkDigest([]byte(p.data.String())),
	})
	p.files = append(p.files, outFile{name: filepath.Join(p.folder, config.Metadata.Name+".yaml"), text: text})
	p.data.Reset()
	p.size = p.empty
	return nil
}

func (i *importer) configMap(name, data string) resource {
	return resource{
		APIVersion: "v1", Kind: "ConfigMap",
		Metadata: resourceMeta{
			Name: name, Namespace: i.options.Namespace,
			Labels: map[string]string{v1alpha1.ContentLabel: "true"},
		},
		Data: map[string]string{chunkKey: data},
	}
}

// appliedSize is how many bytes an object takes in the annotation of `kubectl apply`, which escapes HTML.
func appliedSize(object any) (int, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return 0, fmt.Errorf("render %T: %w", object, err)
	}
	return len(text), nil
}

var notDNS = regexp.MustCompile(`[^a-z0-9.-]+|\.[.-]+|-+\.[.-]*`)

// dnsName turns an ID into a DNS-1123 subdomain with room for a chunk's number. IDs that lose something by it get a
// part of their digest, so that two never meet.
func dnsName(id string) string {
	const longest = 200
	name := strings.Trim(notDNS.ReplaceAllString(strings.ToLower(id), "-"), ".-")
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], ".-")
	}
	if name != id {
		name = strings.TrimLeft(name+"-"+assemble.ChunkDigest([]byte(id))[len("sha256:"):][:8], "-")
	}
	return name
}

// writeFiles writes all files and removes what an earlier import left in the same folders.
func writeFiles(out string, files []outFile) (removed []string, err error) {
	current := make(map[string]bool, len(files))
	for _, file := range files {
		current[filepath.Join(out, file.name)] = true
	}
	for _, file := range files {
		name := filepath.Join(out, file.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // manifests are for everyone to read
			return removed, fmt.Errorf("import: %w", err)
		}
		if err := os.WriteFile(name, file.text, 0o644); err != nil { //nolint:gosec // manifests are for everyone to read
			return removed, fmt.Errorf("import: %w", err)
		}
	}
	for _, file := range files {
		if filepath.Dir(file.name) != "." {
			continue
		}
		folder := filepath.Join(out, strings.TrimSuffix(file.name, ".yaml"))
		stale, err := filepath.Glob(filepath.Join(escapeGlob(folder), "*.yaml"))
		if err != nil {
			return removed, fmt.Errorf("import: %w", err)
		}
		for _, name := range stale {
			if current[name] || !isImported(name) {
				continue
			}
			if err := os.Remove(name); err != nil {
				return removed, fmt.Errorf("import: %w", err)
			}
			removed = append(removed, name)
		}
	}
	return removed, nil
}

func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

func isImported(name string) bool {
	text, err := os.ReadFile(name) //nolint:gosec // a file below the folder that the user named
	return err == nil && bytes.HasPrefix(text, []byte("# "+importedMark))
}

package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// PaperKindsAnnotation is set on an imported ExamContent with papers that are not a whole sitting: `paper_id=partial` or
// `paper_id=pool`, separated by commas.
const PaperKindsAnnotation = "examprep.dev/paper-kinds"

// chunkKey is the key of a chunk in the ConfigMaps that Import writes.
const chunkKey = "questions.jsonl"

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

// rendering writes the files of one exam.
type rendering struct {
	importer *importer
	index    int
	exam     *Exam
	name     string
	// refs are the chunks of each paper; none if its questions are inline.
	refs       [][]v1alpha1.QuestionSource
	configMaps int
}

func (i *importer) newRendering(index int) *rendering {
	exam := &i.input.Exams[index]
	return &rendering{importer: i, index: index, exam: exam, name: dnsName(exam.Spec.ExamKey), refs: make([][]v1alpha1.QuestionSource, len(exam.Spec.Papers))}
}

// checkFields checks an exam and its papers without their questions as the API server would. It does not report known fields again.
func (i *importer) checkFields(ctx context.Context, index int, known map[string]bool) error {
	r := i.newRendering(index)
	for n := range r.refs {
		r.refs[n] = []v1alpha1.QuestionSource{{ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: "chunk", Key: chunkKey}}}
	}
	return r.check(ctx, r.content(), known)
}

// render stages the files of an exam. Papers move into chunks if they are large, and then the largest ones first until the rest fits. It
// returns the name of the ExamContent's file and the number of ConfigMaps. An exam that does not fit is a problem.
func (i *importer) render(ctx context.Context, index int) (file string, configMaps int, err error) {
	r := i.newRendering(index)
	exam := r.exam
	sizes := make([]int, len(exam.Spec.Papers))
	for n := range exam.Spec.Papers {
		questions := exam.Spec.Papers[n].Questions
		if sizes[n], err = appliedSize(questions); err != nil {
			return "", 0, err
		}
		if sizes[n] > i.options.PaperBytes || len(questions) > v1alpha1.MaxInlineQuestions {
			if err := r.pack(ctx, n); err != nil {
				return "", 0, err
			}
		}
	}
	size, err := appliedSize(r.content())
	if err != nil {
		return "", 0, err
	}
	for size > i.options.ObjectBytes {
		largest := -1
		for n := range sizes {
			if r.refs[n] == nil && (largest < 0 || sizes[n] > sizes[largest]) {
				largest = n
			}
		}
		if largest < 0 {
			i.reportf(index, nil, "the ExamContent of %s takes %d bytes without any question; the limit is %d", exam.Spec.ExamKey, size, i.options.ObjectBytes)
			return "", 0, nil
		}
		if err := r.pack(ctx, largest); err != nil {
			return "", 0, err
		}
		refs, err := appliedSize(r.refs[largest])
		if err != nil {
			return "", 0, err
		}
		size += len(`"questionsFrom":`) + refs - len(`"questions":`) - sizes[largest]
	}
	return r.name + ".yaml", r.configMaps, r.stage(ctx, r.content())
}

// content is the exam's resource, in which packed papers refer to their chunks.
func (r *rendering) content() resource {
	spec := r.exam.Spec
	spec.Papers = slices.Clone(spec.Papers)
	for n, refs := range r.refs {
		if refs != nil {
			spec.Papers[n].Questions, spec.Papers[n].QuestionsFrom = nil, refs
		}
	}
	object := resource{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "ExamContent",
		Metadata: resourceMeta{Name: r.name, Namespace: r.importer.options.Namespace}, Spec: spec,
	}
	var kinds []string
	for _, paper := range slices.Sorted(maps.Keys(r.exam.Kinds)) {
		kinds = append(kinds, paper+"="+r.exam.Kinds[paper])
	}
	if len(kinds) > 0 {
		object.Metadata.Annotations = map[string]string{PaperKindsAnnotation: strings.Join(kinds, ",")}
	}
	return object
}

// check checks the resource as the API server would. It does not report known fields again.
func (r *rendering) check(ctx context.Context, object resource, known map[string]bool) error {
	problems, err := content.CheckResource(ctx, object)
	if err != nil {
		return err
	}
	for _, problem := range problems {
		path := syntax.ParsePath(problem.Field)
		if path[0].Key == "spec" {
			path = path[1:]
		}
		if !known[path.String()] {
			r.importer.reportf(r.index, path, "%s", problem.Detail)
		}
	}
	return nil
}

// stage checks the resource, and stages its file.
func (r *rendering) stage(ctx context.Context, object resource) error {
	if err := r.check(ctx, object, nil); err != nil {
		return err
	}
	comments := make(map[string]string, len(r.exam.Comments))
	for n, comment := range r.exam.Comments {
		comments[fmt.Sprintf("spec.papers[%d].provenance", n)] = comment
	}
	text, err := emit(object, importedMark, comments)
	if err != nil {
		return err
	}
	return r.importer.stage.add(r.name+".yaml", text)
}

// pack moves a paper's questions into ConfigMaps.
func (r *rendering) pack(ctx context.Context, paper int) error {
	options, source := r.importer.options, &r.exam.Spec.Papers[paper]
	p := &packer{rendering: r, base: dnsName(source.PaperID)}
	var err error
	if p.empty, err = appliedSize(r.configMap(p.base+"-00", "")); err != nil {
		return err
	}
	p.size = p.empty
	at := syntax.Path{}.Field("papers").At(paper)
	for n, question := range source.Questions {
		if err := ctx.Err(); err != nil {
			return err
		}
		fits, err := p.add(question)
		if err != nil {
			return err
		}
		if !fits {
			r.importer.reportf(r.index, at.Field("questions").At(n), "the question alone is bigger than an object may be (%d bytes)", options.ObjectBytes)
		}
	}
	if err := p.flush(); err != nil {
		return err
	}
	if len(p.refs) > v1alpha1.MaxChunks {
		r.importer.reportf(r.index, at.Field("paperID"), "paper %s needs %d ConfigMaps; a paper may have %d", source.PaperID, len(p.refs), v1alpha1.MaxChunks)
	}
	r.refs[paper] = append([]v1alpha1.QuestionSource{}, p.refs...) // not nil, also without any
	r.configMaps += len(p.refs)
	return nil
}

func (r *rendering) configMap(name, data string) resource {
	return resource{
		APIVersion: "v1", Kind: "ConfigMap",
		Metadata: resourceMeta{
			Name: name, Namespace: r.importer.options.Namespace,
			Labels: map[string]string{v1alpha1.ContentLabel: "true"},
		},
		Data: map[string]string{chunkKey: data},
	}
}

// packer fills ConfigMaps with lines, as many into each as the limit allows.
type packer struct {
	rendering *rendering
	// base begins the ConfigMaps' names; empty is the size of one without lines.
	base  string
	empty int

	data strings.Builder
	size int
	refs []v1alpha1.QuestionSource
}

// add appends a question. It reports false if no ConfigMap can hold it.
func (p *packer) add(question v1alpha1.Question) (bool, error) {
	line, err := syntax.CompactJSON(question)
	if err != nil {
		return false, err
	}
	line = append(line, '\n')
	size, err := appliedSize(string(line))
	size -= len(`""`)
	limit := p.rendering.importer.options.ObjectBytes
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

// flush stages the ConfigMap, if there is anything in it.
func (p *packer) flush() error {
	if p.data.Len() == 0 {
		return nil
	}
	config := p.rendering.configMap(fmt.Sprintf("%s-%02d", p.base, len(p.refs)+1), p.data.String())
	text, err := emit(config, importedMark, nil)
	if err != nil {
		return err
	}
	p.refs = append(p.refs, v1alpha1.QuestionSource{
		ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: config.Metadata.Name, Key: chunkKey},
		Digest:          assemble.ChunkDigest([]byte(p.data.String())),
	})
	p.data.Reset()
	p.size = p.empty
	return p.rendering.importer.stage.add(filepath.Join(p.rendering.name, config.Metadata.Name+".yaml"), text)
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

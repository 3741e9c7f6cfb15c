package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// defaultNamespace is where kubectl puts what names no namespace.
const defaultNamespace = "default"

// maxFileBytes bounds one file; etcd takes 1.5 MB an object, and a file may hold many.
const maxFileBytes = 256 << 20

// Files are the resources that Load found. It is a assemble.ChunkReader over the ConfigMaps among it.
type Files struct {
	// Contents are the ExamContents, in the order of files and documents. Namespace is "default" where the document
	// names none.
	Contents []Content

	webhooks   []syntax.Document
	tiers      []syntax.Document
	configMaps map[objectName]*configMap
	problems   []Problem
	reported   places
	files      int
	ignored    int
}

// Content is an ExamContent and where it stands.
type Content struct {
	v1alpha1.ExamContent

	Position syntax.Position
	doc      syntax.Document
}

type objectName struct{ namespace, name string }

// configMap keeps the document, because a chunk's lines are counted from it.
type configMap struct {
	corev1.ConfigMap

	doc syntax.Document
}

// places are fields that are reported already. The root tells documents apart, because two of one file have the same fields.
type places map[place]bool

type place struct {
	root  *yaml.Node
	field string
}

// covers reports whether p, or anything that holds it, is reported.
func (s places) covers(doc *syntax.Document, p syntax.Path) bool {
	for n := len(p); n > 0; n-- {
		if s[place{doc.Root, p[:n].String()}] {
			return true
		}
	}
	return false
}

func newFiles() *Files {
	return &Files{configMaps: make(map[objectName]*configMap), reported: make(places)}
}

// Load reads files and, recursively, directories: *.yaml, *.yml and *.json; "-" is stdin. Names that begin with a dot
// are skipped in directories. Documents of other kinds are ignored. It fails only if a file cannot be read. Lint reports problems in a file;
// all other uses of such Files return a *ProblemsError.
func Load(ctx context.Context, stdin io.Reader, paths ...string) (*Files, error) {
	b := newFiles()
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := readFile(stdin, file)
		if err != nil {
			return nil, err
		}
		b.files++
		b.addFile(file, text)
	}
	return b, nil
}

// Err returns a *ProblemsError when a file holds something that cannot be used as it is.
func (b *Files) Err() error { return AsError(SortProblems(slices.Clone(b.problems))) }

// ReadChunk returns a chunk from the ConfigMaps found.
func (b *Files) ReadChunk(_ context.Context, namespace, name, key string) ([]byte, error) {
	found := b.configMaps[objectName{namespace: orDefault(namespace), name: name}]
	if found == nil {
		return nil, &assemble.ChunkMissingError{Namespace: orDefault(namespace), Name: name, Key: key}
	}
	raw, ok := assemble.ChunkFrom(&found.ConfigMap, key)
	if !ok {
		return nil, &assemble.ChunkMissingError{Namespace: orDefault(namespace), Name: name, Key: key, KeyMissing: true}
	}
	return raw, nil
}

// expand lists the files under paths, each once, in the order given and by name within a directory.
func expand(paths []string) ([]string, error) {
	var files []string
	seen := make(map[string]bool)
	add := func(file string) {
		if !seen[file] {
			seen[file] = true
			files = append(files, file)
		}
	}
	for _, root := range paths {
		if root == Stdin {
			add(root)
			continue
		}
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			hidden := name != root && strings.HasPrefix(nameOf(entry), ".")
			switch {
			case err != nil:
				return err
			case entry.IsDir() && hidden:
				return fs.SkipDir
			case entry.IsDir() || hidden:
			case name == root || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)):
				add(filepath.Clean(name))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
	}
	return files, nil
}

// nameOf is an entry's name; "" for the nil entry that WalkDir gives with an error.
func nameOf(entry fs.DirEntry) string {
	if entry == nil {
		return ""
	}
	return entry.Name()
}

func readFile(stdin io.Reader, file string) ([]byte, error) {
	source := stdin
	if file != Stdin {
		opened, err := os.Open(file) //nolint:gosec // reading the files that it is told to is this command's task
		if err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		defer func() { _ = opened.Close() }()
		source = opened
	}
	text, err := io.ReadAll(io.LimitReader(source, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read manifests: %s: %w", file, err)
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("read manifests: %s is bigger than %d bytes", file, maxFileBytes)
	}
	return text, nil
}

func (b *Files) addFile(file string, text []byte) {
	parts, linesBefore := syntax.SplitDocuments(text)
	for i, part := range parts {
		docs, err := syntax.ParseDocuments(file, part, linesBefore[i])
		for _, doc := range docs {
			b.addDocument(doc)
		}
		if unreadable, ok := errors.AsType[*syntax.Error](err); ok {
			b.problems = append(b.problems, Problem{
				Position: syntax.Position{File: file, Line: max(unreadable.Line, linesBefore[i]+1), Column: unreadable.Column},
				Detail:   unreadable.Err.Error(),
			})
		}
	}
}

func (b *Files) addDocument(doc *syntax.Document) {
	apiVersion, kind := doc.Text("apiVersion"), doc.Text("kind")
	group, _, _ := strings.Cut(apiVersion, "/")
	switch {
	case doc.Root.Kind == yaml.SequenceNode && holdsResource(doc.Value):
		b.report(doc, nil, "is a list, which kubectl does not read: write one document for each resource, or one of kind List")
	case apiVersion == "v1" && kind == "List":
		b.addList(doc)
	case apiVersion == "v1" && kind == "ConfigMap":
		b.addConfigMap(doc)
	case group != v1alpha1.GroupVersion.Group && slices.Contains([]string{"ExamContent", "WebhookEndpoint", "RateTier"}, kind):
		b.report(doc, syntax.Path{}.Field("apiVersion"), fmt.Sprintf("must be %s for a %s", v1alpha1.GroupVersion, kind))
	case group != v1alpha1.GroupVersion.Group:
		b.ignored++
	case apiVersion != v1alpha1.GroupVersion.String():
		b.report(doc, syntax.Path{}.Field("apiVersion"), fmt.Sprintf("must be %s, is %s", v1alpha1.GroupVersion, apiVersion))
	case kind == "ExamContent":
		b.addContent(doc)
	case kind == "WebhookEndpoint":
		b.webhooks = append(b.webhooks, *doc)
	case kind == "RateTier":
		b.tiers = append(b.tiers, *doc)
	default:
		b.report(doc, syntax.Path{}.Field("kind"), fmt.Sprintf("unknown kind %q in %s: known are ExamContent, RateTier and WebhookEndpoint", kind, apiVersion))
	}
}

// holdsResource reports whether a list has a resource of the group.
func holdsResource(list any) bool {
	items, _ := list.([]any)
	return slices.ContainsFunc(items, func(item any) bool {
		fields, _ := item.(map[string]any)
		apiVersion, _ := fields["apiVersion"].(string)
		return strings.HasPrefix(apiVersion, v1alpha1.GroupVersion.Group+"/")
	})
}

// addList takes a List apart, which is what `kubectl get -o yaml` prints.
func (b *Files) addList(doc *syntax.Document) {
	object, _ := doc.Value.(map[string]any)
	items, _ := object["items"].([]any)
	for i, value := range items {
		node := syntax.ValueAt(doc.Root, syntax.Path{}.Field("items").At(i))
		text, err := syntax.CompactJSON(value)
		if node == nil || err != nil {
			continue // not possible: value was decoded from the tree
		}
		b.addDocument(&syntax.Document{File: doc.File, Root: node, Value: value, JSON: text})
	}
}

func (b *Files) addConfigMap(doc *syntax.Document) {
	added := configMap{doc: *doc}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(doc.JSON, &added.ConfigMap); err != nil {
		b.report(doc, nil, "not a ConfigMap: "+err.Error())
		return
	}
	name := objectName{namespace: orDefault(added.Namespace), name: added.Name}
	first, twice := b.configMaps[name]
	if twice && !isContent(&added) && !isContent(first) {
		return // an overlay may patch a ConfigMap without questions
	}
	if twice {
		at := first.doc.Position(nil)
		b.report(doc, syntax.Path{}.Field("metadata").Field("name"),
			fmt.Sprintf("ConfigMap %s/%s is declared already in %s:%d", name.namespace, name.name, at.File, at.Line))
		return
	}
	if isContent(&added) {
		b.problems = append(b.problems, formProblems(doc, &corev1.ConfigMap{}, b.reported)...)
	}
	b.configMaps[name] = &added
}

func isContent(found *configMap) bool { return found.Labels[v1alpha1.ContentLabel] == "true" }

func (b *Files) addContent(doc *syntax.Document) {
	content := Content{doc: *doc, Position: doc.Position(nil)}
	form := formProblems(doc, &content.ExamContent, b.reported)
	b.problems = append(b.problems, form...)
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(doc.JSON, &content.ExamContent); err != nil {
		if len(form) == 0 {
			b.report(doc, nil, err.Error())
		}
		return
	}
	if content.Name == "" {
		b.report(doc, syntax.Path{}.Field("metadata").Field("name"), "is required")
	}
	content.Namespace = orDefault(content.Namespace)
	b.Contents = append(b.Contents, content)
}

// formProblems are what a decoder into target would refuse, lose or read in another way than others. They are added to reported.
func formProblems(doc *syntax.Document, target any, reported places) []Problem {
	var problems []Problem
	check := syntax.Strict{Root: doc.Root, Report: func(p syntax.Path, at *yaml.Node, detail string) {
		problems = append(problems, Problem{
			Position: syntax.Position{File: doc.File, Line: at.Line, Column: at.Column},
			Field:    p.String(), Detail: detail,
		})
		reported[place{doc.Root, p.String()}] = true
	}}
	check.Object(doc.Value, target)
	return problems
}

func (b *Files) report(doc *syntax.Document, p syntax.Path, detail string) {
	b.reported[place{doc.Root, p.String()}] = true
	b.problems = append(b.problems, Problem{Position: doc.Position(p), Field: p.String(), Detail: detail})
}

func orDefault(namespace string) string {
	if namespace == "" {
		return defaultNamespace
	}
	return namespace
}

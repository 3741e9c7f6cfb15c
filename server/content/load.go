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

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/progress"
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

	endpoints  []declared[v1alpha1.WebhookEndpoint]
	tiers      []declared[v1alpha1.RateTier]
	configMaps map[objectName]*configMap
	problems   []Problem
	reported   places
	files      int
	ignored    int
	// failed is an error of this program, like a schema that cannot be compiled.
	failed error
}

// Content is an ExamContent and where it stands.
type Content struct {
	v1alpha1.ExamContent

	Position syntax.Position
	doc      syntax.Document
}

type objectName struct{ namespace, name string }

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
	steps := progress.From(ctx)
	steps.Start("reading", int64(len(files)), progress.Files)
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := readFile(stdin, file)
		if err != nil {
			return nil, err
		}
		b.files++
		b.addFile(ctx, file, text)
		steps.Add(1)
	}
	b.checkReferenced()
	if b.failed != nil {
		return nil, b.failed
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

func (b *Files) addFile(ctx context.Context, file string, text []byte) {
	parts, linesBefore := syntax.SplitDocuments(text)
	for i, part := range parts {
		docs, err := syntax.ParseDocuments(file, part, linesBefore[i])
		for _, doc := range docs {
			b.addDocument(ctx, doc)
		}
		if unreadable, ok := errors.AsType[*syntax.Error](err); ok {
			b.problems = append(b.problems, Problem{
				Position: syntax.Position{File: file, Line: max(unreadable.Line, linesBefore[i]+1), Column: unreadable.Column},
				Detail:   unreadable.Err.Error(),
			})
		}
	}
}

func (b *Files) addDocument(ctx context.Context, doc *syntax.Document) {
	apiVersion, kind := doc.Text("apiVersion"), doc.Text("kind")
	group, _, _ := strings.Cut(apiVersion, "/")
	switch {
	case doc.Root.Kind == yaml.SequenceNode && holdsResource(doc.Value):
		b.report(doc, nil, "is a list, which kubectl does not read: write one document for each resource, or one of kind List")
	case apiVersion == "v1" && kind == "List":
		b.addList(ctx, doc)
	case apiVersion == "v1" && kind == "ConfigMap":
		b.addConfigMap(doc)
	case group != v1alpha1.GroupVersion.Group && slices.Contains([]string{"ExamContent", "WebhookEndpoint", "RateTier"}, kind):
		b.report(doc, syntax.Path{}.Field("apiVersion"), fmt.Sprintf("must be %s for a %s", v1alpha1.GroupVersion, kind))
	case group != v1alpha1.GroupVersion.Group:
		b.ignored++
	case apiVersion != v1alpha1.GroupVersion.String():
		b.report(doc, syntax.Path{}.Field("apiVersion"), fmt.Sprintf("must be %s, is %s", v1alpha1.GroupVersion, apiVersion))
	case kind == "ExamContent":
		b.addContent(ctx, doc)
	case kind == "WebhookEndpoint":
		b.addEndpoint(ctx, doc)
	case kind == "RateTier":
		b.addTier(ctx, doc)
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
func (b *Files) addList(ctx context.Context, doc *syntax.Document) {
	object, _ := doc.Value.(map[string]any)
	items, _ := object["items"].([]any)
	for i, value := range items {
		node := syntax.ValueAt(doc.Root, syntax.Path{}.Field("items").At(i))
		text, err := syntax.CompactJSON(value)
		if node == nil || err != nil {
			continue // not possible: value was decoded from the tree
		}
		b.addDocument(ctx, &syntax.Document{File: doc.File, Root: node, Value: value, JSON: text})
	}
}

func orDefault(namespace string) string {
	if namespace == "" {
		return defaultNamespace
	}
	return namespace
}

package content

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/schema"
	"examprep.dev/server/content/syntax"
)

// declared is a resource and its document.
type declared[T any] struct {
	object T
	doc    syntax.Document
}

func (b *Files) addContent(ctx context.Context, doc *syntax.Document) {
	content := Content{doc: *doc, Position: doc.Position(nil)}
	if b.decode(ctx, doc, schema.ExamContent, &content.ExamContent) {
		content.Namespace = orDefault(content.Namespace)
		b.Contents = append(b.Contents, content)
	}
}

func (b *Files) addEndpoint(ctx context.Context, doc *syntax.Document) {
	endpoint := declared[v1alpha1.WebhookEndpoint]{doc: *doc}
	if b.decode(ctx, doc, schema.WebhookEndpoint, &endpoint.object) {
		b.endpoints = append(b.endpoints, endpoint)
	}
}

func (b *Files) addTier(ctx context.Context, doc *syntax.Document) {
	tier := declared[v1alpha1.RateTier]{doc: *doc}
	if b.decode(ctx, doc, schema.RateTier, &tier.object) {
		b.tiers = append(b.tiers, tier)
	}
}

// decode checks a document by the schema of its kind, and decodes it with the schema's defaults. It reports false if target cannot be decoded.
func (b *Files) decode(ctx context.Context, doc *syntax.Document, kind func() (*schema.Kind, error), target any) bool {
	compiled, err := kind()
	if err != nil {
		b.failed = errors.Join(b.failed, err)
		return false
	}
	before := len(b.problems)
	object := make(map[string]any)
	if err := utiljson.Unmarshal(doc.JSON, &object); err != nil {
		b.report(doc, nil, "cannot be decoded: "+err.Error())
		return false
	}
	for _, problem := range compiled.Check(ctx, object) {
		b.reportField(doc, problem)
	}
	b.checkForm(doc)
	text, err := utiljson.Marshal(object)
	if err == nil {
		err = sigsjson.UnmarshalCaseSensitivePreserveInts(text, target)
	}
	if err != nil && len(b.problems) == before {
		b.report(doc, nil, "cannot be decoded: "+err.Error())
	}
	return err == nil
}

// checkForm reports what readers of YAML read in different ways.
func (b *Files) checkForm(doc *syntax.Document) {
	doc.Check(func(p syntax.Path, at *yaml.Node, detail string) {
		key := place{doc.Root, p.String()}
		if b.reported[key] {
			return
		}
		b.reported[key] = true
		b.problems = append(b.problems, Problem{
			Position: syntax.Position{File: doc.File, Line: at.Line, Column: at.Column}, Field: p.String(), Detail: detail,
		})
	})
}

// reportField reports a problem that the API server would report, once for each field.
func (b *Files) reportField(doc *syntax.Document, problem *field.Error) {
	p := syntax.ParsePath(problem.Field)
	if b.reported[place{doc.Root, p.String()}] {
		return
	}
	detail := schema.Describe(problem)
	value := syntax.ValueAt(doc.Root, p)
	if strings.Contains(detail, "must be of type string") && value != nil && value.Kind == yaml.ScalarNode {
		detail += ": put quotes around " + value.Value
	}
	b.report(doc, p, detail)
}

func (b *Files) report(doc *syntax.Document, p syntax.Path, detail string) {
	b.reported[place{doc.Root, p.String()}] = true
	b.problems = append(b.problems, Problem{Position: doc.Position(p), Field: p.String(), Detail: detail})
}

// configMap keeps the document, which has the lines of its chunks.
type configMap struct {
	corev1.ConfigMap

	doc     syntax.Document
	checked bool
}

func (b *Files) addConfigMap(doc *syntax.Document) {
	added := configMap{doc: *doc}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(doc.JSON, &added.ConfigMap); err != nil {
		b.reportValues(doc, err)
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
		b.checkConfigMap(&added)
	}
	b.configMaps[name] = &added
}

// reportValues reports each value of a ConfigMap's data that has another type than text, or else the error of its decoder.
func (b *Files) reportValues(doc *syntax.Document, err error) {
	object, _ := doc.Value.(map[string]any)
	data, _ := object["data"].(map[string]any)
	before := len(b.problems)
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if _, isText := data[key].(string); !isText {
			b.reportField(doc, field.TypeInvalid(field.NewPath("data").Key(key), "", "must be of type string"))
		}
	}
	if len(b.problems) == before {
		b.report(doc, nil, "not a ConfigMap: "+err.Error())
	}
}

func isContent(found *configMap) bool { return found.Labels[v1alpha1.ContentLabel] == "true" }

// checkReferenced checks the ConfigMaps that an exam refers to. The label that it lacks is reported by Lint.
func (b *Files) checkReferenced() {
	for _, content := range b.Contents {
		for _, paper := range content.Spec.Papers {
			for _, source := range paper.QuestionsFrom {
				name := objectName{namespace: content.Namespace, name: source.ConfigMapKeyRef.Name}
				if found := b.configMaps[name]; found != nil {
					b.checkConfigMap(found)
				}
			}
		}
	}
}

// checkConfigMap checks a ConfigMap as the API server does. No schema describes it.
func (b *Files) checkConfigMap(found *configMap) {
	if found.checked {
		return
	}
	found.checked = true
	doc := &found.doc
	object, _ := doc.Value.(map[string]any)
	errs := schema.CheckMetadata(object)
	strictErrors, _ := sigsjson.UnmarshalStrict(doc.JSON, &corev1.ConfigMap{})
	for _, path := range syntax.UnknownFields(strictErrors) {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	size := 0
	data, binaryData := field.NewPath("data"), field.NewPath("binaryData")
	for _, key := range slices.Sorted(maps.Keys(found.Data)) {
		size += len(found.Data[key])
		errs = append(errs, checkConfigMapKey(data, key)...)
	}
	for _, key := range slices.Sorted(maps.Keys(found.BinaryData)) {
		size += len(found.BinaryData[key])
		errs = append(errs, checkConfigMapKey(binaryData, key)...)
		if _, twice := found.Data[key]; twice {
			errs = append(errs, field.Invalid(data.Key(key), key, "is a key of binaryData too"))
		}
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.Invalid(data, size, fmt.Sprintf(
			"has %d bytes with binaryData; a ConfigMap can hold %d: put questions into more ConfigMaps", size, corev1.MaxSecretSize)))
	}
	for _, problem := range errs {
		b.reportField(doc, problem)
	}
	b.checkForm(doc)
}

func checkConfigMapKey(at *field.Path, key string) (errs field.ErrorList) {
	for _, detail := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(at.Key(key), key, detail))
	}
	return errs
}

package content

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/clustertest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

// unnamed is a refusal without a field.
const unnamed = ""

// differences are documents on which lint and cluster disagree, with the reason.
func differences() map[string]string {
	const ways = "readers of YAML read it in different ways"
	return map[string]string{
		"yaml/boolean of 1.1 in a boolean": ways,
		"yaml/hexadecimal":                 ways,
		"yaml/octal":                       ways,
		"yaml/underscore":                  ways,
		"yaml/merge key behind":            ways,
		"yaml/key twice":                   "kubectl uses the last value without a word",
		"yaml/too many digits":             "the number would change",
		"status of a wrong type":           "lint does not read a status, which the operator writes",
		"characters/U+0085":                "the API server reads a patch as YAML, to which U+0085 is a line break: the text changes",
	}
}

// A file that lint passes is one that the API server accepts and the operator publishes, and the other way round. All three name the same
// field of a problem.
func TestLintAgreesWithAPIServerAndOperator(t *testing.T) {
	t.Parallel()
	documents := documents(t)
	if len(documents) < 200 {
		t.Fatalf("%d documents", len(documents))
	}
	judge := clusterJudge{client: clustertest.Client(t), namespace: clustertest.Namespace(t)}
	for i, name := range slices.Sorted(maps.Keys(documents)) {
		if race.Enabled && i%10 != 0 {
			continue // make test reads all of them without the detector
		}
		text := documents[name]
		linted, here := lintFields(t, text)
		cluster := judge.fields(t.Context(), t, text)
		_, listed := differences()[name]
		switch {
		case listed && (len(cluster) > 0) == (len(linted) > 0):
			t.Errorf("%s: is listed as a difference and is none: lint %v, cluster %v", name, here, cluster)
		case listed:
		case len(linted) == 0 && len(cluster) > 0:
			t.Errorf("%s: lint passes what the cluster refuses: %v", name, cluster)
		case len(linted) > 0 && len(cluster) == 0:
			t.Errorf("%s: lint refuses what the cluster accepts: %v", name, here)
		default:
			for _, field := range cluster {
				if field != unnamed && !slices.ContainsFunc(linted, func(here string) bool { return here == field || strings.HasPrefix(here, field+".") }) {
					t.Errorf("%s: the cluster names %q, lint %v", name, field, here)
				}
			}
		}
	}
}

// lintFields returns the fields of the errors that lint reports, and the errors.
func lintFields(t *testing.T, text string) (fields []string, problems []Problem) {
	t.Helper()
	files, err := Load(t.Context(), strings.NewReader(text), Stdin)
	check.NoError(t, err)
	report, err := Lint(t.Context(), files, LintOptions{})
	var refused *ProblemsError
	if err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	for _, problem := range report.Problems {
		if problem.Severity == SeverityError {
			fields, problems = append(fields, plainField(problem.Field)), append(problems, problem)
			if strings.HasPrefix(fields[len(fields)-1], "data") || strings.HasPrefix(fields[len(fields)-1], "binaryData") {
				fields = append(fields, "spec.papers.questionsFrom") // the operator names the reference
			}
		}
	}
	return fields, problems
}

var brackets = regexp.MustCompile(`\[[^\]]*\]`)

// plainField is a field without indexes and keys, which lint and API server write in different ways.
func plainField(field string) string {
	plain := strings.TrimPrefix(brackets.ReplaceAllString(field, ""), ".")
	for _, values := range []string{"data", "binaryData"} {
		if strings.HasPrefix(plain, values+".") {
			return values
		}
	}
	return plain
}

// clusterJudge applies documents as kubectl apply --server-side does, as a dry run, and assembles exams as the operator does.
type clusterJudge struct {
	client    client.Client
	namespace string
}

// fields returns the fields that the API server refuses, or else those that the operator refuses.
func (j clusterJudge) fields(ctx context.Context, t *testing.T, text string) (fields []string) {
	t.Helper()
	objects, err := kubectlObjects(text)
	if err != nil {
		return []string{unnamed}
	}
	chunks := configMaps{}
	var contents []*v1alpha1.ExamContent
	for _, object := range objects {
		object.SetNamespace(j.namespace)
		refused := j.apply(ctx, t, object)
		fields = append(fields, refused...)
		if len(refused) > 0 {
			continue
		}
		switch object.GetKind() {
		case "ConfigMap":
			found := &corev1.ConfigMap{}
			check.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found))
			chunks[found.Name] = found
		case "ExamContent":
			content := &v1alpha1.ExamContent{}
			check.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, content))
			contents = append(contents, content)
		case "WebhookEndpoint":
			address, _, err := unstructured.NestedString(object.Object, "spec", "url")
			if err := errors.Join(err, anyAddress().CheckURL(address)); err != nil {
				fields = append(fields, "spec.url")
			}
		}
	}
	for _, content := range contents {
		if content.Spec.Revision == nil && len(fields) == 0 {
			_, err := assemble.Assemble(ctx, content, chunks)
			fields = append(fields, operatorFields(t, err)...)
		}
	}
	return fields
}

// kubectlObjects reads a stream as kubectl does.
func kubectlObjects(text string) (objects []*unstructured.Unstructured, err error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return objects, err
		}
		if raw.Raw = bytes.TrimSpace(raw.Raw); len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		read, _, err := unstructured.UnstructuredJSONScheme.Decode(raw.Raw, nil, nil)
		if err != nil {
			return objects, err
		}
		switch read := read.(type) {
		case *unstructured.Unstructured:
			objects = append(objects, read)
		case *unstructured.UnstructuredList:
			for i := range read.Items {
				objects = append(objects, &read.Items[i])
			}
		}
	}
}

// apply sends an object to the API server as a dry run. It returns the refused fields, and sets the server's defaults in object.
func (j clusterJudge) apply(ctx context.Context, t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	if object.GetName() == "" || strings.Contains(object.GetName(), "/") {
		return []string{"metadata.name"} // kubectl refuses it
	}
	raw, err := object.MarshalJSON()
	check.NoError(t, err)
	force := true
	options := &client.PatchOptions{DryRun: []string{metav1.DryRunAll}, Force: &force, FieldManager: "kubectl", Raw: &metav1.PatchOptions{
		FieldValidation: metav1.FieldValidationStrict,
	}}
	err = j.client.Patch(ctx, object, client.RawPatch(types.ApplyPatchType, raw), options)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return []string{unnamed}
	case !errors.As(err, &status):
		t.Fatalf("apply %s: %v", raw, err)
	}
	return statusFields(status.Status())
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
	typedField   = regexp.MustCompile(`(?m)(?:: |^ *)\.((?:spec|metadata|data|binaryData|status)[^ ]*?): `)
)

// statusFields returns the fields that an answer of the API server names.
func statusFields(status metav1.Status) (fields []string) {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Field != "<nil>" && cause.Field != "" {
				fields = append(fields, plainField(cause.Field))
			}
		}
	}
	for _, expression := range []*regexp.Regexp{unknownField, typedField} {
		for _, match := range expression.FindAllStringSubmatch(status.Message, -1) {
			fields = append(fields, plainField(match[1]))
		}
	}
	if len(fields) == 0 {
		fields = append(fields, unnamed)
	}
	return fields
}

// operatorFields returns the fields of the error of assemble.Assemble.
func operatorFields(t *testing.T, err error) (fields []string) {
	t.Helper()
	if err == nil {
		return nil
	}
	var invalid *catalog.ValidationError
	if !errors.As(err, &invalid) {
		return []string{"spec.papers.questionsFrom"}
	}
	for _, problem := range invalid.Problems {
		fields = append(fields, plainField(problem.Field))
	}
	return fields
}

// configMaps is a ChunkReader over the ConfigMaps of a document.
type configMaps map[string]*corev1.ConfigMap

func (c configMaps) ReadChunk(_ context.Context, namespace, name, key string) ([]byte, error) {
	missing := &assemble.ChunkMissingError{Namespace: namespace, Name: name, Key: key}
	found := c[name]
	if found == nil {
		return nil, missing
	}
	raw, ok := assemble.ChunkFrom(found, key)
	if !ok {
		missing.KeyMissing = true
		return nil, missing
	}
	return raw, nil
}

// An object that was created can be applied again, also by another manager. The schema's defaults do not make a conflict.
func TestApplyOfAnUnchangedObjectHasNoConflict(t *testing.T) {
	t.Parallel()
	api, namespace := clustertest.Client(t), clustertest.Namespace(t)
	for name, text := range map[string]string{
		"a question without section": goodExam,
		"marking with defaults": strings.NewReplacer("es-mir", "es-eir", "      year: 2013\n", "      year: 2013\n      marking: {correct: 4}\n").
			Replace(goodExam),
		"an endpoint": strings.Replace(baseEndpoint, ", key: secret", "", 1),
		"a tier":      jsonTier("tier", 1),
	} {
		objects, err := kubectlObjects(text)
		check.NoError(t, err)
		object := objects[0]
		object.SetNamespace(namespace)
		raw, err := object.MarshalJSON()
		check.NoError(t, err)
		check.Succeeds(t, api.Create(t.Context(), object.DeepCopy(), client.FieldOwner("kubectl-create")), "create %s", name)
		for _, manager := range []string{"kubectl", "another"} {
			err := api.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.ApplyPatchType, raw), client.FieldOwner(manager))
			check.Succeeds(t, err, "apply %s as %s", name, manager)
		}
	}
}

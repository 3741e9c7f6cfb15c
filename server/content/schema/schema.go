// Package schema checks resources with the validators of the API server, in its order.
package schema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
)

// Kind has the validators of one kind.
type Kind struct {
	structural *structuralschema.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator
}

// The kinds of the group. Each is compiled once, because that can take half a second.
var (
	ExamContent     = sync.OnceValues(func() (*Kind, error) { return compile("examcontents") })
	WebhookEndpoint = sync.OnceValues(func() (*Kind, error) { return compile("webhookendpoints") })
	RateTier        = sync.OnceValues(func() (*Kind, error) { return compile("ratetiers") })
)

func compile(plural string) (*Kind, error) {
	crd, err := v1alpha1.CRD(plural)
	if err != nil {
		return nil, err
	}
	properties := &apiextensions.JSONSchemaProps{}
	source := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(source, properties, nil); err != nil {
		return nil, fmt.Errorf("convert the schema of %s: %w", plural, err)
	}
	structural, err := structuralschema.NewStructural(properties)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", plural, err)
	}
	values, _, err := validation.NewSchemaValidator(properties)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", plural, err)
	}
	return &Kind{structural: structural, values: values, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Check returns the problems that the API server reports when the object is created, in its order. It sets the schema's defaults in object.
func (s *Kind) Check(ctx context.Context, object map[string]any) field.ErrorList {
	errs := CheckMetadata(object)
	if spec, given := object["spec"]; given {
		shape := s.structural.Properties["spec"]
		errs = append(errs, nulls(spec, &shape, field.NewPath("spec"))...)
	}
	unknown := pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"+s.suggestion(path)))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	delete(object, "status") // the server ignores it: it is a subresource

	found := validation.ValidateCustomResource(nil, object, s.values)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if s.rules != nil && !slices.ContainsFunc(found, blocksRules) {
		broken, _ := s.rules.Validate(ctx, nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
		found = append(found, broken...)
	}
	return append(errs, found...)
}

// blocksRules reports whether the API server skips CEL rules because of a problem.
func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeRequired, field.ErrorTypeNotSupported, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

// CheckMetadata checks the metadata of a namespaced object, which a schema does not describe.
func CheckMetadata(object map[string]any) field.ErrorList {
	at := field.NewPath("metadata")
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return wrongMetadata(object, at.Child(wrong.Field), wrong)
	} else if err != nil {
		return field.ErrorList{field.TypeInvalid(at, "", "is not valid: "+err.Error())}
	}
	if !found {
		meta = &metav1.ObjectMeta{}
	}
	var errs field.ErrorList
	for _, path := range unknown {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	if meta.Name == "" {
		return append(errs, field.Required(at.Child("name"), "")) // kubectl apply needs it
	}
	meta.Namespace = cmp.Or(meta.Namespace, metav1.NamespaceDefault)
	return append(errs, apivalidation.ValidateObjectMetaAccessor(meta, true, apivalidation.NameIsDNSSubdomain, at)...)
}

// wrongMetadata reports a value of a wrong type. Decoders do not name the key of a label or an annotation.
func wrongMetadata(object map[string]any, at *field.Path, wrong *json.UnmarshalTypeError) (errs field.ErrorList) {
	metadata, _ := object["metadata"].(map[string]any)
	values, _ := metadata[wrong.Field].(map[string]any)
	detail := "must be of type " + wrong.Type.String()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, isText := values[key].(string); !isText {
			errs = append(errs, field.TypeInvalid(at.Key(key), "", detail))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, field.TypeInvalid(at, "", detail))
	}
	return errs
}

// nulls reports nulls below a value, except in free-form values. Server-side apply refuses them; client-side apply and kustomize remove the
// field.
func nulls(value any, shape *structuralschema.Structural, at *field.Path) field.ErrorList {
	if shape == nil || shape.XPreserveUnknownFields && value != nil {
		return nil
	}
	var errs field.ErrorList
	switch value := value.(type) {
	case nil:
		return field.ErrorList{field.Invalid(at, nil, "is null; leave the field out instead")}
	case []any:
		for i, item := range value {
			errs = append(errs, nulls(item, shape.Items, at.Index(i))...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if below, known := shape.Properties[key]; known {
				errs = append(errs, nulls(value[key], &below, at.Child(key))...)
			} else if shape.AdditionalProperties != nil {
				errs = append(errs, nulls(value[key], shape.AdditionalProperties.Structural, at.Child(key))...)
			}
		}
	}
	return errs
}

// suggestion returns the known field that differs from an unknown one in the case of letters only.
func (s *Kind) suggestion(path string) string {
	shape := s.structural
	steps := syntax.ParsePath(path)
	for _, step := range steps[:len(steps)-1] {
		below, known := shape.Properties[step.Key]
		switch {
		case step.Key == "" && shape.Items != nil:
			shape = shape.Items
		case known:
			shape = &below
		default:
			return ""
		}
	}
	for name := range shape.Properties {
		if strings.EqualFold(name, steps[len(steps)-1].Key) {
			return fmt.Sprintf("; did you mean %s?", name)
		}
	}
	return ""
}

// Describe returns the text of a problem without its field.
func Describe(err *field.Error) string {
	detail := err.Detail
	if _, after, found := strings.Cut(detail, " in body "); found {
		detail = after
	}
	switch err.Type {
	case field.ErrorTypeRequired:
		return cmp.Or(detail, "is required")
	case field.ErrorTypeDuplicate:
		return fmt.Sprintf("%v is given twice", err.BadValue)
	case field.ErrorTypeTypeInvalid:
		want, have, _ := strings.Cut(detail, ": ")
		return strings.TrimSuffix(want+", is "+strings.Trim(have, `"`), ", is ")
	case field.ErrorTypeNotSupported:
		return fmt.Sprintf("%v is not supported: %s", err.BadValue, detail)
	case field.ErrorTypeTooLong: // the schema counts characters
		return strings.Replace(detail, "bytes", "characters", 1)
	default:
		return detail
	}
}

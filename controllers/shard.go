package controllers

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Shard is one operator's part of the resources, if several share the work of one cluster. Selectors must not overlap. One
// operator selects the resources of no other shard: `examprep.dev/shard notin (a, b)` also selects those without the label.
//
// Two operators never work on one resource: each watches the resources that it selects, and reads the resource's labels
// before each reconcile. A resource with a new label changes hands without a pause or a conflict, because its claim,
// finalizer, endpoint or tier is identified by cluster, namespace and name alone. A reconcile that the former operator had
// begun can still publish, but not write the status. The new operator reconciles once more when it must have ended
// ([reconcileTimeout]), which corrects a late publication.
type Shard struct {
	// Name is part of the lease's name, and is written to the status of the operator's resources. It is a DNS label; empty for
	// the operator of the remaining resources, whose lease has the usual name.
	Name string
	// Selector picks the resources by their labels; nil or empty: all.
	Selector labels.Selector
}

// ParseShard returns a Shard from the operator's settings. The selector has the form of kubectl's --selector. A named shard
// needs one, or it would share every resource with the operator without a name.
func ParseShard(name, selector string) (Shard, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return Shard{}, fmt.Errorf("shard selector: %w", err)
	}
	if name != "" && parsed.Empty() {
		return Shard{}, fmt.Errorf("shard %s has no selector: it would select the resources of other operators", name)
	}
	if problems := validation.IsDNS1123Label(name); name != "" && len(problems) > 0 {
		return Shard{}, fmt.Errorf("shard name %q: %s", name, strings.Join(problems, "; "))
	}
	return Shard{Name: name, Selector: parsed}, nil
}

// all reports whether this operator selects all resources.
func (s Shard) all() bool { return s.Selector == nil || s.Selector.Empty() }

func (s Shard) selector() labels.Selector {
	if s.all() {
		return labels.Everything()
	}
	return s.Selector
}

// leaseName is the lease that the replicas of one shard elect their leader by.
func (s Shard) leaseName() string {
	if s.Name == "" {
		return defaultLeaseName
	}
	return "examprep-operator-" + s.Name + ".examprep.dev"
}

// read reads a resource from the API server. found is true if the resource exists and still belongs to this operator's
// shard. Otherwise read removes the resource from the readiness metric.
//
// A read from the API server's watch cache would be cheaper, but it can lack the status that the last reconcile wrote. The
// reconcile could then leave the wrong status in place.
func (f *frame) read(ctx context.Context, name types.NamespacedName, object client.Object) (found bool, err error) {
	err = f.live.Get(ctx, name, object)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if found = err == nil && f.shard.selector().Matches(labels.Set(object.GetLabels())); !found {
		f.ready.forget(resourceName{kindOf(object), name.Namespace, name.Name})
	}
	return found, nil
}

// takeOver sets the shard in the status. If another operator had the resource, whose last reconcile can still be running,
// takeOver asks for another reconcile when that one must have ended.
func (f *frame) takeOver(s *scope, result ctrl.Result) ctrl.Result {
	taken := *s.status.shard != f.shard.Name && len(s.before) > 0 && !s.gone
	*s.status.shard = f.shard.Name
	if taken && (result.RequeueAfter == 0 || result.RequeueAfter > handoverLook) {
		return s.again(handoverLook)
	}
	return result
}

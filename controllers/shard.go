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

// Shard is one operator's part of the resources, where several share the work of one cluster. Selectors must not overlap;
// one operator takes what no other selects (`examprep.dev/shard notin (a, b)` selects what has no such label too).
//
// Two operators never work on one resource: each watches what it selects, and looks again at the resource as it is before
// each reconcile. A resource that is given another label changes hands without a pause and without a fight, because what
// it owns (claim, finalizer, endpoint, tier) is known by cluster, namespace and name alone. A reconcile that had begun
// before is let run out: it cannot write the status any more, and what it published late is put right by the second look
// that the new operator takes once it must have ended ([reconcileTimeout]).
type Shard struct {
	// Name names the lease and stands in the status of what this operator takes care of; empty for the operator that
	// takes the rest, which keeps the lease's usual name. A DNS label.
	Name string
	// Selector picks the resources by their labels; nil or empty: all.
	Selector labels.Selector
}

// ParseShard makes a Shard of the operator's settings: a selector as kubectl's --selector has it. A named shard needs a
// selector: it would share every resource with the operator that has no name.
func ParseShard(name, selector string) (Shard, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return Shard{}, fmt.Errorf("shard selector: %w", err)
	}
	if name != "" && parsed.Empty() {
		return Shard{}, fmt.Errorf("shard %s has no selector: it would take what other operators take", name)
	}
	if problems := validation.IsDNS1123Label(name); name != "" && len(problems) > 0 {
		return Shard{}, fmt.Errorf("shard name %q: %s", name, strings.Join(problems, "; "))
	}
	return Shard{Name: name, Selector: parsed}, nil
}

// all says that there is no other operator to share with.
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

// read reads a resource, live. It is found if it is there and this operator's: between the event and now it may have been
// given to another shard. What is not found is none of ours to tell of any more.
//
// The API server's watch cache would cost it less, but may not have heard of the status that the reconcile before wrote:
// what that said would look as if it had never been said, and stay.
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

// takeOver writes down whose the resource is. If it was another operator's until now, whose last reconcile may still be
// running, the resource is looked at again when that must have ended.
func (f *frame) takeOver(s *scope, result ctrl.Result) ctrl.Result {
	taken := *s.status.shard != f.shard.Name && len(s.before) > 0 && !s.gone
	*s.status.shard = f.shard.Name
	if taken && (result.RequeueAfter == 0 || result.RequeueAfter > handoverLook) {
		return s.again(handoverLook)
	}
	return result
}

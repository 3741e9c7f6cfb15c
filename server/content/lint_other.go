package content

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/accounts"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/keys"
	"examprep.dev/server/webhooks"
)

// checkInterval checks a duration's bounds; most zero is none.
func (l *linter) checkInterval(doc *syntax.Document, field string, value *metav1.Duration, least, most time.Duration) {
	p := syntax.Path{}.Field("spec").Field(field)
	switch {
	case value == nil:
	case value.Duration < least:
		l.reportOnce(doc, p, fmt.Sprintf("must be at least %s", least))
	case most > 0 && value.Duration > most:
		l.reportOnce(doc, p, fmt.Sprintf("must be at most %s", most))
	}
}

// other checks a resource that is not content: its form, and that it has a name. It returns false when target could
// not be decoded.
func (l *linter) other(doc *syntax.Document, target any) bool {
	l.problems = append(l.problems, formProblems(doc, target, l.reported)...)
	if doc.Text("metadata", "name") == "" {
		l.report(doc.Position(syntax.Path{}.Field("metadata")), "metadata.name", "is required")
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(doc.JSON, target) == nil
}

func (l *linter) webhook(doc *syntax.Document) {
	var endpoint v1alpha1.WebhookEndpoint
	if !l.other(doc, &endpoint) {
		return
	}
	spec := syntax.Path{}.Field("spec")
	address, err := url.Parse(endpoint.Spec.URL)
	at := spec.Field("url")
	switch {
	case endpoint.Spec.URL == "":
		l.reportOnce(doc, at, "is required")
	case err != nil || address.Scheme != "https" || address.Hostname() == "":
		l.reportOnce(doc, at, "must be an https:// address with a host name")
	case strings.ContainsAny(endpoint.Spec.URL, "@#"):
		l.reportOnce(doc, at, "must not hold credentials or a fragment")
	}
	if invalid, ok := errors.AsType[*webhooks.ValidationError](anyAddress().CheckURL(endpoint.Spec.URL)); ok {
		l.reportOnce(doc, at, invalid.Detail)
	}
	if limit := v1alpha1.MaxEndpointName; endpoint.Spec.SigningSecretRef == nil && len(endpoint.Name) > limit {
		l.reportOnce(doc, syntax.Path{}.Field("metadata").Field("name"), fmt.Sprintf(
			"must have at most %d characters without spec.signingSecretRef: the generated Secret is named after it", limit))
	}
	if account := endpoint.Spec.Account; account != "" {
		l.checkAccount(doc, spec.Field("account"), account)
	}
	at = spec.Field("events")
	if len(endpoint.Spec.Events) == 0 {
		l.reportOnce(doc, at, "needs at least one event")
	}
	known := webhooks.Kinds()
	given := make(map[v1alpha1.EventKind]bool)
	for i, event := range endpoint.Spec.Events {
		switch {
		case given[event]:
			l.report(doc.Position(at.At(i)), at.At(i).String(), fmt.Sprintf("%s is given twice", event))
		case !slices.Contains(known, webhooks.Kind(event)):
			l.report(doc.Position(at.At(i)), at.At(i).String(), fmt.Sprintf("unknown event %q: known are %v", event, known))
		}
		given[event] = true
	}
}

// anyAddress allows every IP address, because --webhook-allow-cidr is not known here.
func anyAddress() *webhooks.AddressPolicy {
	return webhooks.NewAddressPolicy([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
}

// checkAccount reports a name that no account can have.
func (l *linter) checkAccount(doc *syntax.Document, at syntax.Path, name string) {
	_, err := accounts.Name(name)
	if invalid, ok := errors.AsType[*accounts.InvalidError](err); ok {
		l.report(doc.Position(at), at.String(), invalid.Detail)
	}
}

func (l *linter) tier(doc *syntax.Document) {
	var tier v1alpha1.RateTier
	if !l.other(doc, &tier) {
		return
	}
	spec := syntax.Path{}.Field("spec")
	if at := spec.Field("requests"); tier.Spec.Requests < 1 {
		l.reportOnce(doc, at, "must be at least 1")
	}
	if at := spec.Field("burst"); tier.Spec.Burst != nil && *tier.Spec.Burst < 1 {
		l.reportOnce(doc, at, "must be at least 1")
	}
	l.checkInterval(doc, "period", tier.Spec.Period, time.Second, 24*time.Hour)
	for i, account := range tier.Spec.Accounts {
		l.checkAccount(doc, spec.Field("accounts").At(i), account)
	}
	if at := spec.Field("period"); tier.Spec.Period != nil && tier.Spec.Period.Duration%time.Second != 0 {
		l.reportOnce(doc, at, "must be whole seconds")
	}
	l.checkTier(doc, &tier)
}

// checkTier holds a tier against the rules of package keys.
func (l *linter) checkTier(doc *syntax.Document, tier *v1alpha1.RateTier) {
	declared := keys.Tier{Name: tier.Name, Requests: int(tier.Spec.Requests), Period: time.Minute, Burst: int(tier.Spec.Requests)}
	if tier.Spec.Period != nil {
		declared.Period = tier.Spec.Period.Duration
	}
	if tier.Spec.Burst != nil {
		declared.Burst = int(*tier.Spec.Burst)
	}
	invalid, ok := errors.AsType[*keys.InvalidError](declared.Validate())
	switch {
	case !ok:
	case invalid.Field == "name":
		l.reportOnce(doc, syntax.Path{}.Field("metadata").Field("name"), invalid.Detail)
	case invalid.Field == "burst" && tier.Spec.Burst == nil: // it is requests then
		l.reportOnce(doc, syntax.Path{}.Field("spec").Field("requests"), invalid.Detail)
	default:
		l.reportOnce(doc, syntax.Path{}.Field("spec").Field(invalid.Field), invalid.Detail)
	}
}

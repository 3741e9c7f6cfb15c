package content

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/accounts"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/keys"
	"examprep.dev/server/webhooks"
)

// endpoint checks an endpoint as the operator and the worker do.
func (l *linter) endpoint(found declared[v1alpha1.WebhookEndpoint]) {
	endpoint, spec := &found.object, syntax.Path{}.Field("spec")
	if invalid, ok := errors.AsType[*webhooks.ValidationError](anyAddress().CheckURL(endpoint.Spec.URL)); ok {
		l.reportOnce(&found.doc, spec.Field("url"), invalid.Detail)
	}
	if limit := v1alpha1.MaxEndpointName; endpoint.Spec.SigningSecretRef == nil && len(endpoint.Name) > limit {
		l.reportOnce(&found.doc, syntax.Path{}.Field("metadata").Field("name"), fmt.Sprintf(
			"must have at most %d characters without spec.signingSecretRef: the generated Secret is named after it", limit))
	}
	if account := endpoint.Spec.Account; account != "" {
		l.checkAccount(&found.doc, spec.Field("account"), account)
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
		l.reportOnce(doc, at, invalid.Detail)
	}
}

// tier checks a tier as the operator does.
func (l *linter) tier(found declared[v1alpha1.RateTier]) {
	for i, account := range found.object.Spec.Accounts {
		l.checkAccount(&found.doc, syntax.Path{}.Field("spec").Field("accounts").At(i), account)
	}
	l.checkTier(&found.doc, &found.object)
}

// checkTier checks a tier by the rules of package keys.
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

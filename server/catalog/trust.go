package catalog

import (
	"fmt"

	"examprep.dev/server/postgres"
	"examprep.dev/server/seals"
)

// Verifiers decides whether the signature of a seal is a trusted verifier's; *seals.Set and *seals.File do. It fails
// with a *seals.SignatureError.
type Verifiers interface {
	Verify(statement seals.Statement, signature string) error
	// Identity changes whenever Verify could return a different result for some signature.
	Identity() string
}

// Trust identifies the trusted seals: while it is the same, the seal gate decides the same about a paper.
func (p *Publisher) Trust() string {
	if p.verifiers == nil {
		return string(p.env)
	}
	return string(p.env) + " " + p.verifiers.Identity()
}

// Trusting returns a Publisher like p that requires of a seal both the digest and a signature that verifiers accept. As with the
// digest, production refuses papers without a signature, and sandbox reports them as unsealed. Published content stays published
// if its signer is no longer trusted.
func (p *Publisher) Trusting(verifiers Verifiers) *Publisher {
	trusting := *p
	trusting.verifiers = verifiers
	return &trusting
}

// judge sets untrusted for papers with a right digest and a signature that verifiers refuse. It leaves Sealed unchanged: Sealed is
// stored, and does not depend on the trusted verifiers.
func (p *Publisher) judge(examKey string, papers []paperRef) {
	if p.verifiers == nil {
		return
	}
	for i := range papers {
		if ref := &papers[i]; ref.Sealed {
			ref.untrusted = p.verifiers.Verify(statement(examKey, ref), ref.Verification.Signature)
		}
	}
}

// refusePinned applies the seal gate to a pinned revision; call judge first. A client that can set spec.revision must not bring back
// a paper whose signer is no longer trusted, or that was published without a signature. A wrong digest means that the database was
// changed, because production never published it.
func (p *Publisher) refusePinned(examKey string, pin int64, pinned *content, owner *Claim) error {
	if p.env != postgres.Production {
		return nil
	}
	var refusal *SealError
	damaged := &DamagedError{ExamKey: examKey, Revision: pin}
	for i := range pinned.papers {
		ref := &pinned.papers[i]
		switch {
		case !ref.Sealed:
			damaged.Papers = append(damaged.Papers, ref.PaperID)
		case ref.untrusted == nil:
		case refusal != nil:
			refusal.Others = append(refusal.Others, ref.PaperID)
		default:
			refusal = &SealError{ExamKey: examKey, PaperID: ref.PaperID, Have: ref.Verification.Digest, Untrusted: ref.untrusted, Owner: owner}
		}
	}
	switch {
	case len(damaged.Papers) > 0:
		return damaged
	case refusal != nil:
		return refusal
	default:
		return nil
	}
}

func statement(examKey string, ref *paperRef) seals.Statement {
	return seals.Statement{
		ExamKey: examKey, PaperID: ref.PaperID,
		Digest: ref.Verification.Digest, By: ref.Verification.By, At: ref.Verification.At,
	}
}

// UnsealedError reports that a paper's verification is not there, or not the paper's.
type UnsealedError struct {
	// Have is verification.digest, empty without a verification; Want the paper's own digest.
	Have string
	Want Digest
}

func (e *UnsealedError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("carries no verification seal; its digest is %s", e.Want)
	}
	return fmt.Sprintf("is sealed as %s but its digest is %s", e.Have, e.Want)
}

// Statement returns what a verifier of the paper signs. It fails with *UnsealedError when the verification is not the
// paper's, for a signature of it would count for nothing, and with *ValidationError when the paper has no canonical form.
func (p Paper) Statement(examKey string) (seals.Statement, error) {
	seal, err := p.SealDigest()
	if err != nil {
		return seals.Statement{}, err
	}
	if !p.Verification.of(seal) {
		unsealed := &UnsealedError{Want: seal}
		if p.Verification != nil {
			unsealed.Have = p.Verification.Digest
		}
		return seals.Statement{}, unsealed
	}
	return statement(examKey, &paperRef{PaperID: p.ID, Verification: p.Verification}), nil
}

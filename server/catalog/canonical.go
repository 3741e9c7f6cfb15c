package catalog

// SealDigest returns the SHA-256 of the paper's canonical form: what verification.digest seals.
func (p Paper) SealDigest() (Digest, error) { return Digest{}, errUnfinished }

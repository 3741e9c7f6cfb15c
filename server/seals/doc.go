// Package seals decides whether a paper's verification seal was signed by somebody who may verify papers: the message
// that a verifier signs, the two forms of signature that standard tools make, and the file of trusted verifiers.
//
// # What is signed
//
// A Statement's Message: one line of RFC 8785 JSON and a newline,
//
//	{"at":"2026-01-31","by":"ann@example.org","canonical":"examprep.dev/seal/v1","digest":"sha256:…","exam_key":"…","paper_id":"…"}
//
// The digest stands for all of the paper; the exam key and the paper ID keep a seal from being moved to another paper;
// by and at are signed because the file of trusted verifiers limits who may sign, and when. What a paper takes from its
// exam (scoring, a time limit it lacks itself) is no more signed than it is sealed.
//
// # Signatures
//
//   - ssh-keygen -Y sign -n examprep.dev: the armored text. RSA with SHA-1, DSA, certificates and other namespaces are
//     refused.
//   - cosign sign-blob --key, or openssl: the base64 of an ECDSA P-256 signature over SHA-256 (ASN.1), or of an Ed25519
//     one (pure, or Ed25519ph as cosign makes it for a transparency log). No log and no network is asked.
//
// # Trusted verifiers
//
// One file holds lines of OpenSSH's allowed_signers (see ssh-keygen(1)) and PEM public keys in any order:
//
//	ann@example.org,"B. Reviewer" valid-before="20270101Z" ssh-ed25519 AAAA…
//	*@board.example namespaces="examprep.dev" ssh-ed25519 AAAA…
//	-----BEGIN PUBLIC KEY-----
//	…
//
// Principals are matched against verification.by; a PEM key has none and may sign as anybody. Timestamps without a Z
// are UTC here, so that a laptop and a pod agree.
//
// valid-after and valid-before are compared with verification.at, which the signature covers: what was verified while a key
// was valid stays verified, and whether a paper may be published does not change overnight. The holder of a key can give a
// seal an earlier date, so a lost key is removed from the file, which takes effect at once. A signature stays good for what
// it covers: content that was once signed can be brought back.
//
// # How it fails
//
// *FileError (a file of trusted verifiers that cannot be used; with its line) and *SignatureError (a signature that does
// not count, and why). No text of a signature or of a key is in an error beyond a key's fingerprint.
//
// It knows neither the catalogue nor Kubernetes; both call it.
package seals

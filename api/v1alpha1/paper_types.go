package v1alpha1

// MaxInlineQuestions is the maximum number of questions in a paper's questions; a larger paper needs questionsFrom. The
// limit keeps the cost of the validation rules within the API server's budget.
const MaxInlineQuestions = 250

// MaxChunks is the limit of a paper's questionsFrom.
const MaxChunks = 64

// Paper is one real past paper with its answer key.
//
// +kubebuilder:validation:XValidation:rule="has(self.questions) != has(self.questionsFrom)",message="a paper needs either questions (inline) or questionsFrom (chunks in ConfigMaps), and not both"
type Paper struct {
	// PaperID identifies the paper in the HTTP API: 6 to 160 characters, unique within the exam.
	//
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=160
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:-]*$`
	// +required
	PaperID string `json:"paperID"`

	// Title is the paper's full name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Title string `json:"title"`

	// Subject is the paper's subject, if the exam has several.
	//
	// +kubebuilder:validation:MaxLength=200
	// +optional
	Subject string `json:"subject,omitempty"`

	// Year is the year in which the paper was used in an exam. The API groups papers by year.
	//
	// +kubebuilder:validation:Minimum=1800
	// +kubebuilder:validation:Maximum=2200
	// +required
	Year int32 `json:"year"`

	// DurationMinutes is the paper's time limit in minutes, at most 10080 (a week). Default: the exam's durationMinutes.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10080
	// +optional
	DurationMinutes int32 `json:"durationMinutes,omitempty"`

	// Language is the BCP 47 tag of the paper's language, for example es or pt-BR.
	//
	// +kubebuilder:validation:MaxLength=35
	// +kubebuilder:validation:Pattern=`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`
	// +optional
	Language string `json:"language,omitempty"`

	// Marking has the marks for an answer to a question of this paper. Default: the exam's scoring.marks; without them, 1
	// for a right answer and 0 otherwise.
	//
	// +optional
	Marking *Marking `json:"marking,omitempty"`

	// Provenance is the source of the paper. It is required, because only real past questions are served.
	//
	// +required
	Provenance Provenance `json:"provenance"`

	// Verification is a reviewer's seal. In production a paper is published only with a seal that matches its content.
	// `examprep content digest` prints the digest for it and writes it.
	//
	// +optional
	Verification *Verification `json:"verification,omitempty"`

	// Questions are the paper's questions, in the order of the paper, at most 250. Section and number together are unique.
	// For more questions, or an object near etcd's limit of 1.5 MB, use questionsFrom.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=250
	// +listType=atomic
	// +optional
	Questions []Question `json:"questions,omitempty"`

	// QuestionsFrom refers to chunks of the paper's questions, in order, in ConfigMaps of this namespace; at most 64. A
	// paper is published only if all chunks exist and match their digests.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	QuestionsFrom []QuestionSource `json:"questionsFrom,omitempty"`
}

// Marking has the marks for one answer.
//
// +kubebuilder:validation:XValidation:rule="self.unanswered <= self.correct",message="unanswered must not earn more than a right answer: leave it out for 0",fieldPath=".unanswered"
type Marking struct {
	// Correct is the marks for a right answer: more than 0, at most 1000, with at most 6 decimals.
	//
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +required
	Correct float64 `json:"correct"`

	// Incorrect is the marks for a wrong answer. Default 0; negative if the exam has negative marking, for example -0.25.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=0
	// +optional
	Incorrect float64 `json:"incorrect"`

	// Unanswered is the marks for an unanswered question. Default 0; never more than for a right answer.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Unanswered float64 `json:"unanswered"`
}

// Provenance is the source of a paper.
type Provenance struct {
	// Publisher is the organisation that set or published the paper.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Publisher string `json:"publisher"`

	// SourceURL is the address of the paper, with http or https.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://') || self.startsWith('http://')",message="provenance.sourceURL must begin with https:// or http://: say where the paper can be found"
	// +required
	SourceURL string `json:"sourceURL"`

	// SourceDigest is the SHA-256 of the document at sourceURL when it was copied, as sha256:<64 hex digits>.
	//
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +optional
	SourceDigest string `json:"sourceDigest,omitempty"`

	// License is the licence or permission to serve the paper: an SPDX identifier or a sentence.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	License string `json:"license"`
}

// Verification is a reviewer's seal on a paper.
type Verification struct {
	// By names the reviewer.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +required
	By string `json:"by"`

	// At is the date or RFC 3339 time at which the reviewer checked the paper.
	//
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9]{2}:[0-9]{2}))?$`
	// +required
	At string `json:"at"`

	// Digest is the digest of the paper's canonical form at that time, as sha256:<64 hex digits>. `examprep content digest
	// --write` writes it.
	//
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +required
	Digest string `json:"digest"`

	// Signature is the reviewer's signature of the output of `examprep content digest --message`. Its form is the armored
	// text of ssh-keygen -Y sign -n examprep.dev, or the base64 text of cosign sign-blob --key. In production it is
	// required if the operator has trusted verifiers (--trusted-verifiers). It covers digest, by, at, the exam key and the
	// paper ID; if one of them changes, sign again.
	//
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Signature string `json:"signature,omitempty"`
}

// QuestionSource refers to one chunk of a paper's questions.
type QuestionSource struct {
	// ConfigMapKeyRef names the ConfigMap and key with the chunk: a JSON array, a YAML list or JSON Lines of questions. The
	// key is in data or binaryData; a chunk in binaryData can be compressed with gzip. Give the ConfigMap the label
	// examprep.dev/content: "true"; without it the operator notices changes only at the next resync.
	//
	// +required
	ConfigMapKeyRef ConfigMapKeyRef `json:"configMapKeyRef"`

	// Digest is the SHA-256 of the chunk's bytes, before decompression, as sha256:<64 hex digits>. It prevents the
	// publication of a half-applied change, with one new chunk and one old one.
	//
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +optional
	Digest string `json:"digest,omitempty"`
}

// ConfigMapKeyRef names a key of a ConfigMap in the resource's own namespace.
type ConfigMapKeyRef struct {
	// Name of the ConfigMap.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// Key in its data or binaryData, for example part-0.json.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +required
	Key string `json:"key"`
}

// Question is one question with its key. In the HTTP API its answer_id is "<section>:<number>".
//
// +kubebuilder:validation:XValidation:rule="self.answer.?choice.optMap(choice, choice in self.?options.orValue({})).orValue(true)",message="answer.choice must be one of the letters under options",fieldPath=".answer.choice"
// +kubebuilder:validation:XValidation:rule="!has(self.answer.choices) || (has(self.options) && self.answer.choices.all(c, c in self.options))",message="every letter of answer.choices must be one of the letters under options",fieldPath=".answer.choices"
type Question struct {
	// Section is the number of the section that the question belongs to. Default 1, for a paper without sections.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Section int32 `json:"section,omitempty"`

	// SectionName is the section's title.
	//
	// +kubebuilder:validation:MaxLength=300
	// +optional
	SectionName string `json:"sectionName,omitempty"`

	// Number is the question's number, unique within its section.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +required
	Number int32 `json:"number"`

	// Prompt is the text of the question, with the passage that it refers to.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +required
	Prompt string `json:"prompt"`

	// Options maps letters (A, B, C, ...) to the texts of the options, at least two. Omit it if the question is not
	// multiple choice.
	//
	// +kubebuilder:validation:MinProperties=2
	// +kubebuilder:validation:MaxProperties=11
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() == 1 && k >= 'A')",message="the keys of options must be single capital letters: A, B, C, ..."
	// +kubebuilder:validation:XValidation:rule="self.all(k, k <= 'Z')",message="the keys of options must be capital letters: nothing that comes after Z, as small letters do"
	// +mapType=atomic
	// +optional
	Options map[string]string `json:"options,omitempty"` // its rules are two because one of both would cost more than one may

	// Answer is the right answer, of exactly one kind.
	//
	// +required
	Answer Answer `json:"answer"`

	// Explanation is the publisher's own explanation of the answer. examprep never generates one.
	//
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Explanation string `json:"explanation,omitempty"`

	// Page is the page of the question in the source document, counted from 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Page int32 `json:"page,omitempty"`

	// HasVisual reports whether the question refers to a figure or diagram.
	//
	// +optional
	HasVisual bool `json:"hasVisual,omitempty"`

	// Topic is the topic of the question.
	//
	// +kubebuilder:validation:MaxLength=300
	// +optional
	Topic string `json:"topic,omitempty"`
}

// Answer is the right answer to a question. It has exactly one of choice, choices, number, text, annulled and unmarkable.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="dyn(self).size() == (has(self.tolerance) ? 2 : 1)",message="give exactly one of choice, choices, number, text, annulled and unmarkable"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerance) || has(self.number)",message="tolerance belongs to number: remove it, or give a number"
type Answer struct { // a rule counts what is given: a field more, or one with a default, must be counted there
	// Choice is the letter of the right option.
	//
	// +kubebuilder:validation:MaxLength=1
	// +kubebuilder:validation:Pattern=`^[A-Z]$`
	// +optional
	Choice string `json:"choice,omitempty"`

	// Choices are the letters of all right options, if a right answer must name several.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=1
	// +kubebuilder:validation:items:Pattern=`^[A-Z]$`
	// +listType=set
	// +optional
	Choices []string `json:"choices,omitempty"`

	// Number is the right numeric answer.
	//
	// +optional
	Number *float64 `json:"number,omitempty"`

	// Tolerance is the largest difference from number of an answer that is still right. Default 0: only the exact number is
	// right.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Tolerance *float64 `json:"tolerance,omitempty"`

	// Text is the right answer in words; letter case and repeated spaces do not matter.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +optional
	Text string `json:"text,omitempty"`

	// Annulled marks a question that its examiners withdrew. It counts as right for every learner.
	//
	// +kubebuilder:validation:Enum=true
	// +optional
	Annulled bool `json:"annulled,omitempty"`

	// Unmarkable marks a question that no machine can mark, for example an essay. It does not count in the score or the
	// maximum.
	//
	// +kubebuilder:validation:Enum=true
	// +optional
	Unmarkable bool `json:"unmarkable,omitempty"`
}

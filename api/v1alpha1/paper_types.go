package v1alpha1

// MaxInlineQuestions is how many questions a paper may hold inline; a bigger one goes into chunks. The bound keeps the
// validation rules within the API server's budget.
const MaxInlineQuestions = 250

// MaxChunks is the limit of a paper's questionsFrom.
const MaxChunks = 64

// Paper is one real past paper with its answer key.
//
// +kubebuilder:validation:XValidation:rule="has(self.questions) != has(self.questionsFrom)",message="a paper needs either questions (inline) or questionsFrom (chunks in ConfigMaps), and not both"
type Paper struct {
	// PaperID names the paper in the HTTP API: 6 to 160 characters, unique within the exam.
	//
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=160
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:-]*$`
	// +required
	PaperID string `json:"paperID"`

	// Title is the paper's name, as people read it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Title string `json:"title"`

	// Subject is what the paper is about, where the exam has several subjects.
	//
	// +kubebuilder:validation:MaxLength=200
	// +optional
	Subject string `json:"subject,omitempty"`

	// Year is when the paper was sat; the catalogue groups papers by it.
	//
	// +kubebuilder:validation:Minimum=1800
	// +kubebuilder:validation:Maximum=2200
	// +required
	Year int32 `json:"year"`

	// DurationMinutes is the paper's time limit in minutes, at most 10080 (a week); without one the exam's holds.
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

	// Marking is what an answer to this paper earns; without it the exam's scoring.marks holds, else 1 for a right
	// answer and 0 otherwise.
	//
	// +optional
	Marking *Marking `json:"marking,omitempty"`

	// Provenance tells where the paper comes from. It is required: only real past questions are ever served.
	//
	// +required
	Provenance Provenance `json:"provenance"`

	// Verification is a reviewer's seal. In production a paper without one that matches is not published; `examprep
	// content digest` prints and writes it.
	//
	// +optional
	Verification *Verification `json:"verification,omitempty"`

	// Questions are the paper's questions, in paper order; section and number together are unique. For more than 250
	// questions, or an object near etcd's limit of 1.5 MB, use questionsFrom.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=250
	// +listType=atomic
	// +optional
	Questions []Question `json:"questions,omitempty"`

	// QuestionsFrom are chunks of questions in ConfigMaps of this namespace, in order; together they are the paper. A
	// paper is published only when every chunk is there and as its digest says.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	QuestionsFrom []QuestionSource `json:"questionsFrom,omitempty"`
}

// Marking is what one answer earns, in marks.
//
// +kubebuilder:validation:XValidation:rule="self.unanswered <= self.correct",message="unanswered must not earn more than a right answer: leave it out for 0",fieldPath=".unanswered"
type Marking struct {
	// Correct is what a right answer earns, in marks: more than 0, at most 1000, at most 6 decimals.
	//
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +required
	Correct float64 `json:"correct"`

	// Incorrect is what a wrong answer earns, in marks: 0 (the default), or less where the exam has negative marking, for
	// example -0.25.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=0
	// +optional
	Incorrect float64 `json:"incorrect"`

	// Unanswered is what no answer earns, in marks: 0 (the default), and never more than a right answer.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	// +optional
	Unanswered float64 `json:"unanswered"`
}

// Provenance tells where a paper comes from.
type Provenance struct {
	// Publisher is the body that set or published the paper.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Publisher string `json:"publisher"`

	// SourceURL is where the paper can be found.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://') || self.startsWith('http://')",message="provenance.sourceURL must begin with https:// or http://: say where the paper can be found"
	// +required
	SourceURL string `json:"sourceURL"`

	// SourceDigest is the SHA-256 of the document at sourceURL when it was taken over, as sha256:<64 hex digits>.
	//
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +optional
	SourceDigest string `json:"sourceDigest,omitempty"`

	// License is what permits serving the paper: an SPDX identifier or a sentence.
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

	// At is when the paper was checked, a date or an RFC 3339 time.
	//
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9]{2}:[0-9]{2}))?$`
	// +required
	At string `json:"at"`

	// Digest is that of the paper's canonical form when it was checked, as sha256:<64 hex digits>. `examprep content
	// digest --write` fills it in.
	//
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	// +required
	Digest string `json:"digest"`

	// Signature is the reviewer's, over what `examprep content digest --message` prints: the armored text of ssh-keygen
	// -Y sign -n examprep.dev, or the base64 text of cosign sign-blob --key. It is needed in production where the operator
	// is given trusted verifiers (--trusted-verifiers). It covers the digest, by, at, the exam key and the paper ID; when
	// any of them changes, sign again.
	//
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Signature string `json:"signature,omitempty"`
}

// QuestionSource is one chunk of a paper's questions.
type QuestionSource struct {
	// ConfigMapKeyRef names the ConfigMap and the key in it that hold the chunk: a JSON array, a YAML list or JSON Lines
	// of questions, under data, or under binaryData, where it may be compressed with gzip. Label the ConfigMap
	// examprep.dev/content: "true": only then are its changes noticed at once.
	//
	// +required
	ConfigMapKeyRef ConfigMapKeyRef `json:"configMapKeyRef"`

	// Digest is the SHA-256 of the chunk's raw bytes (compressed, if it is), as sha256:<64 hex digits>. With it a
	// half-synchronised change, one chunk new and one old, is never published.
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

	// Prompt is the question's text, with the passage it refers to.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	// +required
	Prompt string `json:"prompt"`

	// Options maps a letter (A, B, C, ...) to the option's text. Leave it out when there is nothing to choose from.
	//
	// +kubebuilder:validation:MinProperties=2
	// +kubebuilder:validation:MaxProperties=11
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() == 1 && k >= 'A')",message="the keys of options must be single capital letters: A, B, C, ..."
	// +kubebuilder:validation:XValidation:rule="self.all(k, k <= 'Z')",message="the keys of options must be capital letters: nothing that comes after Z, as small letters do"
	// +mapType=atomic
	// +optional
	Options map[string]string `json:"options,omitempty"` // its rules are two because one of both would cost more than one may

	// Answer is the key: exactly one kind of answer.
	//
	// +required
	Answer Answer `json:"answer"`

	// Explanation is the publisher's own; it is never generated. Left out: learners see none.
	//
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	Explanation string `json:"explanation,omitempty"`

	// Page is where the question stands in the source document, counted from 1.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Page int32 `json:"page,omitempty"`

	// HasVisual says that the question refers to a figure or diagram.
	//
	// +optional
	HasVisual bool `json:"hasVisual,omitempty"`

	// Topic is what the question is about.
	//
	// +kubebuilder:validation:MaxLength=300
	// +optional
	Topic string `json:"topic,omitempty"`
}

// Answer is a question's key: exactly one of choice, choices, number, text, annulled and unmarkable.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="dyn(self).size() == (has(self.tolerance) ? 2 : 1)",message="give exactly one of choice, choices, number, text, annulled and unmarkable"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerance) || has(self.number)",message="tolerance belongs to number: remove it, or give a number"
type Answer struct { // a rule counts what is given: a field more, or one with a default, must be counted there
	// Choice is the letter of the one right option.
	//
	// +kubebuilder:validation:MaxLength=1
	// +kubebuilder:validation:Pattern=`^[A-Z]$`
	// +optional
	Choice string `json:"choice,omitempty"`

	// Choices are the letters of all right options, where several are right together.
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

	// Tolerance is how far from number an answer may be and still be right; 0 or left out: exact.
	//
	// +kubebuilder:validation:Minimum=0
	// +optional
	Tolerance *float64 `json:"tolerance,omitempty"`

	// Text is the right answer in words; letter case and repeated spaces do not count.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +optional
	Text string `json:"text,omitempty"`

	// Annulled marks a question that its examiners withdrew: it counts as right for everyone.
	//
	// +kubebuilder:validation:Enum=true
	// +optional
	Annulled bool `json:"annulled,omitempty"`

	// Unmarkable marks a question that no machine can mark, an essay for example: it counts in neither score nor
	// maximum.
	//
	// +kubebuilder:validation:Enum=true
	// +optional
	Unmarkable bool `json:"unmarkable,omitempty"`
}

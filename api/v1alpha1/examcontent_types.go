package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeletionPolicy says what becomes of published content when its resource is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionRetain leaves the published exam served and gives up the claim to its key.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete withdraws the exam. Attempts that were made keep their results.
	DeletionDelete DeletionPolicy = "Delete"
)

// ExamContentSpec declares one exam: its official specification, its links, its study path and its real past papers.
type ExamContentSpec struct {
	// ExamKey names the exam in the HTTP API's paths (/v1/exam-prep/{exam_key}/...). Lower-case letters, digits and
	// hyphens. It never changes: another key is another exam. One resource owns a key; a second one that declares it
	// gets Accepted=False, reason ExamKeyConflict, and changes nothing.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$')",message="examKey may hold lower-case letters, digits and single inner hyphens only, for example es-mir"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="examKey cannot be changed: create another ExamContent for another exam"
	// +required
	ExamKey string `json:"examKey"`

	// Name is the exam's full name, as people read it.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Name string `json:"name"`

	// Category groups exams of a kind, for example "bar admission".
	//
	// +kubebuilder:validation:MaxLength=200
	// +optional
	Category string `json:"category,omitempty"`

	// Country is the full English name of the country where the exam is held.
	//
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Country string `json:"country,omitempty"`

	// CountryCode is the country's ISO 3166-1 alpha-2 code, in capitals.
	//
	// +kubebuilder:validation:MaxLength=2
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{2}$')",message="countryCode must be two capital letters (ISO 3166-1 alpha-2), for example ES"
	// +optional
	CountryCode string `json:"countryCode,omitempty"`

	// DurationMinutes is the time limit of the whole exam in minutes, at most 10080 (a week). An attempt at a paper without a duration of its own has this
	// one; with neither, the attempt has no time limit.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10080
	// +optional
	DurationMinutes int32 `json:"durationMinutes,omitempty"`

	// Sections are the parts of the exam's official specification, in order.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Sections []Section `json:"sections,omitempty"`

	// Scoring is the official scoring rubric: an object whose shape varies by exam and is served as it is. These keys
	// have a meaning here: method, marks {correct, incorrect, unanswered}, partial_credit, max_score, pass_mark,
	// scale {min, max, step}, conversion [{raw, scaled}], bands [{label, min, max, descriptor}], source_url.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Scoring *apiextensionsv1.JSON `json:"scoring,omitempty"`

	// Resources are verified links about the exam.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// StudyPath is the suggested way to the exam, week by week.
	//
	// +optional
	StudyPath *StudyPath `json:"studyPath,omitempty"`

	// Papers are the exam's real past papers. The API lists them by year, newest first, and within a year by paperID: their
	// order here has no effect.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=paperID
	// +optional
	Papers []Paper `json:"papers,omitempty"`

	// Suspend stops the operator from publishing changes; what is published stays served. Deletion is still handled.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DeletionPolicy says what becomes of the published exam when this resource is deleted: Retain (the default) keeps
	// it served and gives up the claim to the key; Delete withdraws it.
	//
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// ResyncInterval is how often what is published is compared with what is declared, although nothing changed: a
	// change that somebody made in the database is noticed and repaired within it. Default 10m, at least 30s.
	//
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('30s')",message="resyncInterval must be a duration of at least 30s, for example 10m or 1h30m"
	// +kubebuilder:validation:Type=string
	// +optional
	ResyncInterval *metav1.Duration `json:"resyncInterval,omitempty"`

	// Adopt lets this resource take an exam key that another resource owns. It acts once for each change of spec
	// (status.adoptedGeneration). Set it to move an exam to another namespace or cluster, and remove it afterwards. If
	// adoption is restricted (the default) and a resource of another namespace or cluster still owns the key, the
	// annotation examprep.dev/adopts of this namespace must list the key.
	//
	// +optional
	Adopt bool `json:"adopt,omitempty"`

	// Revision pins an earlier published revision (status.revision counts them) and so rolls back to it, whatever the
	// rest of the spec declares. Remove it to publish the spec again. It must be among the last revisionHistoryLimit.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Revision *int64 `json:"revision,omitempty"`

	// RevisionHistoryLimit is how many earlier revisions are kept for rolling back. Default 10.
	//
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// Section is a part of an exam's official specification.
type Section struct {
	// Name is the section's title.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Name string `json:"name"`

	// DurationMinutes is the section's own time limit in minutes, where the specification gives one.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10080
	// +optional
	DurationMinutes int32 `json:"durationMinutes,omitempty"`

	// Questions is the number of questions of the section.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Questions int32 `json:"questions,omitempty"`

	// QuestionTypes names the kinds of question, for example "multiple choice".
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=300
	// +listType=atomic
	// +optional
	QuestionTypes []string `json:"questionTypes,omitempty"`

	// Skills names what the section tests, for example "reading".
	//
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=300
	// +listType=atomic
	// +optional
	Skills []string `json:"skills,omitempty"`
}

// Resources are verified links about an exam.
type Resources struct {
	// OfficialSites are sites of the bodies that hold the exam.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	OfficialSites []Link `json:"officialSites,omitempty"`

	// PastQuestionsSources are places where past papers are published.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	PastQuestionsSources []Link `json:"pastQuestionsSources,omitempty"`
}

// Link is a titled address.
type Link struct {
	// Title is the text to show.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Title string `json:"title"`

	// URL is the address, http or https.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://') || self.startsWith('http://')",message="url must begin with https:// or http://"
	// +required
	URL string `json:"url"`
}

// StudyPath is the suggested way to an exam.
type StudyPath struct {
	// Weeks is how many weeks the path takes.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=520
	// +optional
	Weeks int32 `json:"weeks,omitempty"`

	// HoursTotal is how many hours of study the path adds up to.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	HoursTotal float64 `json:"hoursTotal,omitempty"`

	// Steps are the path's entries, in order: objects whose shape is yours and which are served as they are. Customary
	// keys: week, title, section, topics[], activities[], hours, paper_ids[], milestone.
	//
	// +kubebuilder:validation:MaxItems=520
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +listType=atomic
	// +optional
	Steps []apiextensionsv1.JSON `json:"steps,omitempty"`
}

// ExamContentStatus is what the operator last saw and did.
type ExamContentStatus struct {
	// ObservedGeneration is the metadata.generation that this status tells of; -1 until the operator has seen the resource.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready (what is declared is what is served), Accepted (valid, and the key is this resource's),
	// ResolvedRefs (all chunks found and as their digests say), Published (the revision is out); Reconciling and
	// Stalled only while True.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Revision is the published revision's number; it rises with each publication, also by more than one.
	//
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// PublishedDigest is the digest of the published revision as a whole.
	//
	// +optional
	PublishedDigest string `json:"publishedDigest,omitempty"`

	// SourceDigest tells what the published revision was read from: this resource's spec, the versions of its ConfigMaps, and
	// whose verification seals count. While it stays the same, the operator compares what is published with the database and
	// does not read the questions again. It is empty where a change to a ConfigMap could go unseen, and with spec.revision.
	//
	// +optional
	SourceDigest string `json:"sourceDigest,omitempty"`

	// AdoptedGeneration is the last metadata.generation with spec.adopt in which this resource owned its exam key. In this
	// generation spec.adopt does not move the key again.
	//
	// +optional
	AdoptedGeneration int64 `json:"adoptedGeneration,omitempty"`

	// PublishedAt is when the published revision came out.
	//
	// +optional
	PublishedAt *metav1.Time `json:"publishedAt,omitempty"`

	// PaperCount is the number of published papers.
	//
	// +optional
	PaperCount int32 `json:"paperCount,omitempty"`

	// QuestionCount is the number of published questions, over all papers.
	//
	// +optional
	QuestionCount int32 `json:"questionCount,omitempty"`

	// Papers are the published papers.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=paperID
	// +optional
	Papers []PublishedPaper `json:"papers,omitempty"`

	// LastHandledReconcileAt is the last value of the annotation reconcile.examprep.dev/requestedAt that was acted on.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Shard names the operator that wrote this status, where several share the work (--shard-name).
	//
	// +optional
	Shard string `json:"shard,omitempty"`
}

// PublishedPaper is a paper of the published revision.
type PublishedPaper struct {
	// PaperID is the paper's identifier in the HTTP API.
	//
	// +kubebuilder:validation:MaxLength=160
	// +required
	PaperID string `json:"paperID"`

	// Digest identifies the immutable revision of the paper that is served.
	//
	// +required
	Digest string `json:"digest"`

	// QuestionCount is the paper's number of questions.
	//
	// +required
	QuestionCount int32 `json:"questionCount"`

	// Sealed says whether the paper carries a verification seal that matches.
	//
	// +optional
	Sealed bool `json:"sealed,omitempty"`
}

// ExamContent publishes one exam and its real past papers to the exam-preparation API.
//
// The operator validates the declaration, reads the chunks of questions it refers to, and publishes all of it at once as
// an immutable revision: readers see the old revision or the new one, never a mixture. While anything is wrong the last
// good revision stays served, and the conditions name the field at fault.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=exam;exams,categories=examprep
// +kubebuilder:printcolumn:name="Exam",type=string,JSONPath=`.spec.examKey`,description="Key of the exam in the HTTP API"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether what is declared is what is served"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Published revision"
// +kubebuilder:printcolumn:name="Papers",type=integer,JSONPath=`.status.paperCount`,description="Published papers"
// +kubebuilder:printcolumn:name="Questions",type=integer,JSONPath=`.status.questionCount`,priority=1,description="Published questions"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What the operator says"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExamContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec declares the exam.
	//
	// +required
	Spec ExamContentSpec `json:"spec"`

	// Status is written by the operator.
	//
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status ExamContentStatus `json:"status,omitempty"`
}

// ExamContentList is a list of ExamContent.
//
// +kubebuilder:object:root=true
type ExamContentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExamContent `json:"items"`
}

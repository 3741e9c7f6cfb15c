package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeletionPolicy selects the effect of deleting a resource on its published content.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionRetain keeps the published exam served and releases its key.
	DeletionRetain DeletionPolicy = "Retain"
	// DeletionDelete withdraws the exam. Existing attempts keep their results.
	DeletionDelete DeletionPolicy = "Delete"
)

// ExamContentSpec declares one exam: its official specification, its links, its study path and its real past papers.
type ExamContentSpec struct {
	// ExamKey names the exam in the HTTP API's paths (/v1/exam-prep/{exam_key}/...). It has lower-case letters, digits and
	// hyphens, and cannot be changed. One resource owns a key; a second resource with the same key gets Accepted=False,
	// reason ExamKeyConflict, and changes nothing.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$')",message="examKey may hold lower-case letters, digits and single inner hyphens only, for example es-mir"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="examKey cannot be changed: create another ExamContent for another exam"
	// +required
	ExamKey string `json:"examKey"`

	// Name is the exam's full name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Name string `json:"name"`

	// Category is the kind of exam, for example "bar admission".
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

	// DurationMinutes is the time limit of the whole exam in minutes, at most 10080 (a week). It applies to attempts at
	// papers without durationMinutes; with neither, an attempt has no time limit.
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

	// Scoring is the official scoring rubric, an object of any shape that the API serves unchanged. Scoring uses these
	// keys: method, marks {correct, incorrect, unanswered}, partial_credit, max_score, pass_mark, scale {min, max, step},
	// conversion [{raw, scaled}], bands [{label, min, max, descriptor}], source_url.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +optional
	Scoring *apiextensionsv1.JSON `json:"scoring,omitempty"`

	// Resources are verified links about the exam.
	//
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// StudyPath is the suggested preparation for the exam, week by week.
	//
	// +optional
	StudyPath *StudyPath `json:"studyPath,omitempty"`

	// Papers are the exam's real past papers. The API lists them by year, newest first, and within a year by paperID. Their
	// order in this list has no effect.
	//
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=paperID
	// +optional
	Papers []Paper `json:"papers,omitempty"`

	// Suspend stops the operator from publishing changes; the published revision is still served. The operator still
	// handles the deletion of this resource.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DeletionPolicy selects what happens to the published exam when this resource is deleted. Retain (the default) keeps
	// the exam served and releases its key; Delete withdraws the exam.
	//
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// ResyncInterval is the time between two comparisons of the published content with this resource, even if the resource
	// did not change. The operator finds and repairs changes in the database within this time. Default 10m, at least 30s.
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

	// Revision rolls back to an earlier published revision, by its number in status.revision, and ignores the content in
	// the rest of the spec. Remove it to publish the spec again. The revision must be among the last revisionHistoryLimit.
	//
	// +kubebuilder:validation:Minimum=1
	// +optional
	Revision *int64 `json:"revision,omitempty"`

	// RevisionHistoryLimit is the number of earlier revisions that are kept for a roll-back. Default 10, at most 100.
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

	// DurationMinutes is the section's time limit in minutes, at most 10080. Omit it if the specification has none.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10080
	// +optional
	DurationMinutes int32 `json:"durationMinutes,omitempty"`

	// Questions is the number of questions in the section.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Questions int32 `json:"questions,omitempty"`

	// QuestionTypes are the kinds of question, for example "multiple choice".
	//
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=300
	// +listType=atomic
	// +optional
	QuestionTypes []string `json:"questionTypes,omitempty"`

	// Skills are the skills that the section tests, for example "reading".
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
	// OfficialSites are websites of the exam's organisers.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	OfficialSites []Link `json:"officialSites,omitempty"`

	// PastQuestionsSources are pages where past papers are published.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	PastQuestionsSources []Link `json:"pastQuestionsSources,omitempty"`
}

// Link is a titled address.
type Link struct {
	// Title is the text of the link.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	// +required
	Title string `json:"title"`

	// URL is the address, with http or https.
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://') || self.startsWith('http://')",message="url must begin with https:// or http://"
	// +required
	URL string `json:"url"`
}

// StudyPath is the suggested preparation for an exam.
type StudyPath struct {
	// Weeks is the length of the path in weeks.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=520
	// +optional
	Weeks int32 `json:"weeks,omitempty"`

	// HoursTotal is the number of hours of study in the whole path.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	HoursTotal float64 `json:"hoursTotal,omitempty"`

	// Steps are the steps of the path, in order. Each is an object of any shape that the API serves unchanged. Usual keys:
	// week, title, section, topics[], activities[], hours, paper_ids[], milestone.
	//
	// +kubebuilder:validation:MaxItems=520
	// +kubebuilder:validation:items:Type=object
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +listType=atomic
	// +optional
	Steps []apiextensionsv1.JSON `json:"steps,omitempty"`
}

// ExamContentStatus reports the published content and the state of the operator's work.
type ExamContentStatus struct {
	// ObservedGeneration is the metadata.generation from which the operator computed this status; -1 before the first
	// reconcile.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready (the declared content is served), Accepted (the resource is valid and owns its exam key),
	// ResolvedRefs (all chunks exist and match their digests) and Published (the declared content is published).
	// Reconciling and Stalled are present only while True.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Revision is the number of the published revision. It increases with each publication, sometimes by more than one.
	//
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// PublishedDigest is the digest of the whole published revision.
	//
	// +optional
	PublishedDigest string `json:"publishedDigest,omitempty"`

	// SourceDigest is a digest of the sources of the published revision: this resource's spec, the versions of its
	// ConfigMaps and the trusted verifiers. While it stays the same, the operator compares the published content with the
	// database, and usually does not read the questions again. It is empty with spec.revision, and if the operator cannot
	// notice each change to a ConfigMap.
	//
	// +optional
	SourceDigest string `json:"sourceDigest,omitempty"`

	// AdoptedGeneration is the last metadata.generation with spec.adopt in which this resource owned its exam key. In this
	// generation spec.adopt does not move the key again.
	//
	// +optional
	AdoptedGeneration int64 `json:"adoptedGeneration,omitempty"`

	// PublishedAt is the time of the last publication.
	//
	// +optional
	PublishedAt *metav1.Time `json:"publishedAt,omitempty"`

	// PaperCount is the number of published papers.
	//
	// +optional
	PaperCount int32 `json:"paperCount,omitempty"`

	// QuestionCount is the number of published questions in all papers.
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

	// LastHandledReconcileAt is the last value of the annotation reconcile.examprep.dev/requestedAt that the operator
	// handled.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Shard is the --shard-name of the operator that wrote this status, if several operators share the resources.
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

	// Digest identifies the served revision of the paper, which is immutable.
	//
	// +required
	Digest string `json:"digest"`

	// QuestionCount is the number of questions in the paper.
	//
	// +required
	QuestionCount int32 `json:"questionCount"`

	// Sealed reports whether the paper has a seal that matches its content and that the operator's verifiers trust.
	//
	// +optional
	Sealed bool `json:"sealed,omitempty"`
}

// ExamContent publishes one exam and its real past papers to the exam-preparation API.
//
// The operator validates the resource, reads its chunks of questions, and publishes both together as an immutable revision.
// Clients get the old revision or the new one, never a mixture. If anything is wrong, the last good revision is still
// served, and a condition names the field.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=exam;exams,categories=examprep
// +kubebuilder:printcolumn:name="Exam",type=string,JSONPath=`.spec.examKey`,description="Key of the exam in the HTTP API"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared content is served"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Published revision"
// +kubebuilder:printcolumn:name="Papers",type=integer,JSONPath=`.status.paperCount`,description="Published papers"
// +kubebuilder:printcolumn:name="Questions",type=integer,JSONPath=`.status.questionCount`,priority=1,description="Published questions"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Message of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExamContent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the declared exam and options for the operator.
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

package fields

// Records returns all kinds of records, each after those that it refers to.
func Records() []Record {
	return []Record{Exams(), Papers(), Questions(), Sections(), Links(), Steps()}
}

const examOf = "Key of the exam that it belongs to"

// Exams are the exams, one resource each.
func Exams() Record {
	return Record{
		Name: "exam", Sheet: "exams", File: "exams.json", Path: "spec", About: "An exam. Each one becomes an ExamContent.",
		Fields: []Field{
			{Path: "examKey", JSON: "exam_key", Column: "examKey", Type: Text, Example: "geography-certificate", About: "Name of the exam in the paths of the HTTP API: lower-case letters, digits and single hyphens. It never changes."},
			{JSON: "kind", Type: Text, About: "`pool` if the papers are pools of questions; it has no effect."},
			{Path: "name", JSON: "name", Column: "name", Type: Text, Example: "Geography Certificate", About: "Full name of the exam."},
			{Path: "category", JSON: "category", Column: "category", Type: Text, Example: "school leaving", About: "Kind of exam, such as `bar admission`."},
			{Path: "country", JSON: "country", Column: "country", Type: Text, Example: "France", About: "English name of the country."},
			{Path: "countryCode", JSON: "country_code", Column: "countryCode", Type: Text, Example: "FR", About: "Country by ISO 3166-1 alpha-2, in capitals, such as `ES`."},
			{Path: "durationMinutes", JSON: "duration_min", Column: "durationMinutes", Type: Whole, Example: "90", About: "Time limit in minutes of papers without one of their own."},
			{Path: "sections", JSON: "sections", Type: Objects, About: "Sections, see below. In sheets they are a sheet of their own."},
			{Path: "scoring", JSON: "scoring", Column: "scoring", Type: Object, Example: "{\"pass_mark\": 50}", About: "Official scoring, served as it is; `method`, `marks`, `partial_credit`, `max_score`, `pass_mark`, `scale`, `conversion`, `bands` and `source_url` have a meaning."},
			{Path: "resources", JSON: "resources", Type: Object, About: "Object with lists of links, see below. In sheets they are a sheet of their own."},
			{Path: "studyPath.weeks", JSON: "study_path.study_weeks", Column: "weeks", Type: Whole, Example: "4", About: "Weeks that the study path takes."},
			{Path: "studyPath.hoursTotal", JSON: "study_path.study_hours_total", Column: "hoursTotal", Type: Number, Example: "20.5", About: "Hours of study in the whole study path."},
			{Path: "studyPath.steps", JSON: "study_path.study_path", Type: Objects, About: "Steps of the study path, see below. In sheets they are a sheet of their own."},
		},
	}
}

// Papers are the papers of all exams.
func Papers() Record {
	return Record{
		Name: "paper", Sheet: "papers", File: "papers.jsonl", Path: "spec.papers", About: "A real past paper.",
		Fields: []Field{
			{JSON: "exam_key", Column: "examKey", Type: Text, Needed: true, Example: "geography-certificate", About: examOf + "."},
			{Path: "paperID", JSON: "paper_id", Column: "paperID", Type: Text, Example: "geography-certificate-2024-05", About: "Name of the paper in the HTTP API, of letters, digits, `.`, `_`, `:` and `-`. It must be unique in the whole input."},
			{Path: "title", JSON: "title", Column: "title", Type: Text, Example: "May 2024", About: "Name of the paper."},
			{Path: "subject", JSON: "subject", Column: "subject", Type: Text, Example: "Geography", About: "Subject, if the exam has several."},
			{Path: "year", JSON: "year", Column: "year", Type: Whole, Example: "2024", About: "Year of the sitting."},
			{JSON: "kind", Type: Text, About: "`sitting`, `partial` or `pool`. The last two are written to the annotation `examprep.dev/paper-kinds`."},
			{Path: "durationMinutes", JSON: "duration_min", Column: "durationMinutes", Type: Whole, Example: "60", About: "Time limit in minutes; without one the exam's."},
			{Path: "language", JSON: "language", Column: "language", Type: Text, Example: "en", About: "BCP 47 tag of the language, such as `es` or `pt-BR`."},
			{Path: "marking.correct", JSON: "marking.correct", Column: "correct", Type: Number, Example: "1", About: "Marks for a right answer, with at most 6 decimals. Without it the exam's scoring decides, else 1."},
			{Path: "marking.incorrect", JSON: "marking.incorrect", Column: "incorrect", Type: Number, Example: "-0.25", About: "Marks for a wrong answer, such as -0.25. It needs `correct`."},
			{Path: "marking.unanswered", JSON: "marking.unanswered", Column: "unanswered", Type: Number, Example: "0", About: "Marks for no answer, at most those for a right one. It needs `correct`."},
			{Path: "provenance.publisher", JSON: "provenance.publisher", Column: "publisher", Type: Text, Example: "Board of Examiners", About: "Body that set or published the paper."},
			{Path: "provenance.sourceURL", JSON: "provenance.source_url", Column: "sourceURL", Type: Text, Example: "https://example.org/2024-05.pdf", About: "Address of the paper, with http or https."},
			{Path: "provenance.sourceDigest", Column: "sourceDigest", Type: Text, About: "SHA-256 of the document at that address, as `sha256:` and 64 hex digits. An import of JSON Lines computes it from the paper's lines."},
			{Path: "provenance.license", JSON: "provenance.license", Column: "license", Type: Text, Example: "CC-BY-4.0", About: "Licence that permits serving the paper: an SPDX identifier or a sentence."},
			{JSON: "provenance.dataset", Type: Text, About: "Data set that the paper was taken from. It becomes a comment."},
			{JSON: "provenance.retrieved_from", Type: Text, About: "Address of that data set. It becomes a comment."},
			{JSON: "question_count", Type: Whole, About: "Number of lines in questions.jsonl with this paper. A difference is a problem."},
		},
	}
}

// Questions are the questions of all papers.
func Questions() Record {
	return Record{
		Name: "question", Sheet: "questions", File: "questions.jsonl", Path: "spec.papers[].questions", About: "A question with its answer key. Questions keep the order of the file.",
		Fields: []Field{
			{JSON: "paper_id", Column: "paperID", Type: Text, Needed: true, Example: "geography-certificate-2024-05", About: "Paper that the question belongs to."},
			{Path: "section", JSON: "section", Column: "section", Type: Whole, Example: "1", About: "Number of the section. Default 1."},
			{Path: "sectionName", JSON: "section_name", Column: "sectionName", Type: Text, Example: "Europe", About: "Title of the section."},
			{Path: "number", JSON: "number", Column: "number", Type: Whole, Example: "1", About: "Number of the question, unique in its section."},
			{Path: "prompt", JSON: "prompt", Column: "prompt", Type: Text, Example: "Which river flows through Paris?", About: "Text of the question."},
			{Path: "options", JSON: "options", Column: "A", Through: "K", Type: Text, Example: "Loire; Seine; Rhine", About: "Options by letter: in JSON Lines an object such as `{\"A\": \"Yes\"}`, in sheets a column each. A question that is not multiple choice has none."},
			{JSON: "answer.kind", Column: "answerKind", Type: Text, Needed: true, Example: "choice", About: "`choice`, `choices`, `number` (`numeric` in JSON Lines), `text`, `annulled` (right for everyone) or `unmarkable` (not scored)."},
			{Path: "answer", JSON: "answer.value", Column: "answer", Type: Answer, Example: "B", About: "Right answer: a letter, several letters (an array in JSON Lines), a number or a text. It is empty for `annulled` and `unmarkable`."},
			{Path: "answer.tolerance", JSON: "answer.tolerance", Column: "tolerance", Type: Number, About: "How far an answer can be from the number. Default 0."},
			{Path: "explanation", JSON: "explanation", Column: "explanation", Type: Text, Example: "The Seine flows through Paris.", About: "The publisher's own explanation."},
			{Path: "page", JSON: "page", Column: "page", Type: Whole, Example: "2", About: "Page of the source document, from 1."},
			{Path: "hasVisual", JSON: "has_visual", Column: "hasVisual", Type: Boolean, Example: "false", About: "Whether the question needs a figure. Default false."},
			{Path: "topic", JSON: "topic", Column: "topic", Type: Text, Example: "Rivers", About: "Topic of the question."},
		},
	}
}

// Sections are the parts of the exams' official specifications.
func Sections() Record {
	return Record{
		Name: "section", Sheet: "sections", File: "exams.json", Within: "sections", Path: "spec.sections", Optional: true,
		About: "A part of an exam's official specification.",
		Fields: []Field{
			{Column: "examKey", Type: Text, Needed: true, Example: "geography-certificate", About: examOf + "."},
			{Path: "name", JSON: "name", Column: "name", Type: Text, Example: "Europe", About: "Title of the section."},
			{Path: "durationMinutes", JSON: "duration_min", Column: "durationMinutes", Type: Whole, Example: "30", About: "Time limit of the section in minutes."},
			{Path: "questions", JSON: "questions", Column: "questions", Type: Whole, Example: "20", About: "Number of questions."},
			{Path: "questionTypes", JSON: "question_types", Column: "questionTypes", Type: Texts, Example: "multiple choice", About: "Kinds of question, such as `multiple choice`."},
			{Path: "skills", JSON: "skills", Column: "skills", Type: Texts, Example: "maps; rivers", About: "Skills that the section tests."},
		},
	}
}

// Links are the links of the exams.
func Links() Record {
	return Record{
		Name: "link", Sheet: "links", File: "exams.json", Within: "resources.official_sites` and `resources.past_questions_sources", Path: "spec.resources.officialSites", Optional: true,
		About: "A link to an official site, or to a place where past papers are published.",
		Fields: []Field{
			{Column: "examKey", Type: Text, Needed: true, Example: "geography-certificate", About: examOf + "."},
			{Column: "list", Type: Text, Needed: true, Example: "officialSites", About: "`officialSites` or `pastQuestionsSources`."},
			{Path: "title", JSON: "title", Column: "title", Type: Text, Example: "Board of Examiners", About: "Text of the link."},
			{Path: "url", JSON: "url", Column: "url", Type: Text, Example: "https://example.org/", About: "Address, with http or https."},
		},
	}
}

// Steps are the steps of the study paths.
func Steps() Record {
	return Record{
		Name: "step", Sheet: "steps", File: "exams.json", Within: "study_path.study_path", Path: "spec.studyPath.steps", Optional: true,
		About: "A step of an exam's study path, in order. In JSON Lines the step is the object itself.",
		Fields: []Field{
			{Column: "examKey", Type: Text, Needed: true, Example: "geography-certificate", About: examOf + "."},
			{Column: "step", Type: Object, Needed: true, Example: "{\"week\": 1, \"title\": \"Rivers\"}", About: "The step, served as it is. Usual keys are `week`, `title`, `section`, `topics`, `activities`, `hours`, `paper_ids` and `milestone`."},
		},
	}
}

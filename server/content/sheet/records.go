package sheet

import (
	"strings"

	"examprep.dev/api/v1alpha1"
)

// exam reads a row of the sheet exams.
func (r *reader) exam(v *values) {
	spec := v1alpha1.ExamContentSpec{
		ExamKey: v.word("examKey"), Name: v.text("name"), Category: v.text("category"),
		Country: v.text("country"), CountryCode: v.word("countryCode"), DurationMinutes: v.whole("durationMinutes"),
	}
	if scoring := v.object("scoring"); scoring != nil {
		spec.Scoring = scoring
	}
	weeks, hours := v.whole("weeks"), v.number("hoursTotal")
	if weeks != 0 || hours != nil {
		spec.StudyPath = &v1alpha1.StudyPath{Weeks: weeks}
		if hours != nil {
			spec.StudyPath.HoursTotal = *hours
		}
	}
	switch first := r.byKey[spec.ExamKey]; {
	case spec.ExamKey == "": // reported already
	case first != nil:
		v.reportf("examKey", "exam %s is in row %d already", spec.ExamKey, first.line)
	default:
		read := &readExam{spec: spec, line: v.row.Line}
		r.byKey[spec.ExamKey] = read
		r.exams = append(r.exams, read)
	}
}

// examOf returns the exam that a row refers to, or nil.
func (r *reader) examOf(v *values) *readExam {
	key := v.word("examKey")
	exam := r.byKey[key]
	if exam == nil && key != "" {
		v.reportf("examKey", "exam %q is not in exams", key)
	}
	return exam
}

// paper reads a row of the sheet papers.
func (r *reader) paper(v *values) {
	exam := r.examOf(v)
	paper := v1alpha1.Paper{
		PaperID: v.word("paperID"), Title: v.text("title"), Subject: v.text("subject"), Year: v.whole("year"),
		DurationMinutes: v.whole("durationMinutes"), Language: v.word("language"), Marking: marking(v),
		Provenance: v1alpha1.Provenance{
			Publisher: v.text("publisher"), SourceURL: v.word("sourceURL"), SourceDigest: v.word("sourceDigest"), License: v.text("license"),
		},
	}
	read := &readPaper{value: paper, line: v.row.Line}
	first := r.papers[paper.PaperID]
	switch {
	case paper.PaperID == "": // reported already
		return
	case first != nil:
		v.reportf("paperID", "paper %s is in row %d already", paper.PaperID, first.line)
		return
	case exam != nil:
		exam.papers = append(exam.papers, read)
	}
	r.papers[paper.PaperID] = read // also without its exam: its questions must not be reported too
}

// marking returns the marks of a paper, or nil.
func marking(v *values) *v1alpha1.Marking {
	correct, incorrect, unanswered := v.number("correct"), v.number("incorrect"), v.number("unanswered")
	if correct == nil {
		if incorrect != nil || unanswered != nil {
			v.reportf("correct", "is required with incorrect and unanswered")
		}
		return nil
	}
	marks := &v1alpha1.Marking{Correct: *correct}
	if incorrect != nil {
		marks.Incorrect = *incorrect
	}
	if unanswered != nil {
		marks.Unanswered = *unanswered
	}
	return marks
}

// question reads a row of the sheet questions.
func (r *reader) question(v *values) {
	id := v.word("paperID")
	paper := r.papers[id]
	if paper == nil && id != "" {
		v.reportf("paperID", "paper %q is not in papers", id)
	}
	question := v1alpha1.Question{
		Section: v.whole("section"), SectionName: v.text("sectionName"), Number: v.whole("number"), Prompt: v.text("prompt"),
		Options: options(v), Answer: answer(v), Explanation: v.text("explanation"), Page: v.whole("page"),
		HasVisual: v.boolean("hasVisual"), Topic: v.text("topic"),
	}
	if paper == nil {
		return
	}
	paper.value.Questions = append(paper.value.Questions, question)
	paper.lines = append(paper.lines, v.row.Line)
}

// options returns the options that have a text, or nil.
func options(v *values) map[string]string {
	var found map[string]string
	for letter := 'A'; letter <= 'K'; letter++ {
		name := string(letter)
		if text := v.text(name); text != "" {
			if found == nil {
				found = make(map[string]string, 4)
			}
			found[name] = text
		}
	}
	return found
}

// answer reads the columns answerKind, answer and tolerance.
func answer(v *values) (answer v1alpha1.Answer) {
	kind := v.word("answerKind")
	tolerance := v.number("tolerance")
	if tolerance != nil && kind != "number" {
		v.reportf("tolerance", "belongs to the kind number")
	}
	given := strings.TrimSpace(v.cell("answer").Text) != ""
	switch kind {
	case "choice":
		answer.Choice = v.word("answer")
	case "choices":
		answer.Choices = v.texts("answer")
	case "number":
		answer.Number, answer.Tolerance = v.number("answer"), tolerance
	case "text":
		answer.Text = v.text("answer")
	case "annulled":
		answer.Annulled = true
	case "unmarkable":
		answer.Unmarkable = true
	case "":
		return answer // reported already
	default:
		v.reportf("answerKind", "must be choice, choices, number, text, annulled or unmarkable, is %.40q", kind)
		return answer
	}
	switch takesNone := answer.Annulled || answer.Unmarkable; {
	case takesNone && given:
		v.reportf("answer", "must be empty for the kind %s", kind)
	case !takesNone && !given:
		v.reportf("answer", "is required for the kind %s", kind)
	}
	return answer
}

// section reads a row of the sheet sections.
func (r *reader) section(v *values) {
	section := v1alpha1.Section{
		Name: v.text("name"), DurationMinutes: v.whole("durationMinutes"), Questions: v.whole("questions"),
		QuestionTypes: v.texts("questionTypes"), Skills: v.texts("skills"),
	}
	if exam := r.examOf(v); exam != nil {
		exam.spec.Sections = append(exam.spec.Sections, section)
		exam.sections = append(exam.sections, v.row.Line)
	}
}

// link reads a row of the sheet links.
func (r *reader) link(v *values) {
	link := v1alpha1.Link{Title: v.text("title"), URL: v.word("url")}
	exam, list := r.examOf(v), v.word("list")
	if exam != nil && exam.spec.Resources == nil {
		exam.spec.Resources = &v1alpha1.Resources{}
	}
	switch {
	case list != "officialSites" && list != "pastQuestionsSources" && list != "":
		v.reportf("list", "must be officialSites or pastQuestionsSources, is %.40q", list)
	case exam == nil:
	case list == "officialSites":
		exam.spec.Resources.OfficialSites = append(exam.spec.Resources.OfficialSites, link)
		exam.official = append(exam.official, v.row.Line)
	default:
		exam.spec.Resources.PastQuestionsSources = append(exam.spec.Resources.PastQuestionsSources, link)
		exam.pastPapers = append(exam.pastPapers, v.row.Line)
	}
}

// step reads a row of the sheet steps.
func (r *reader) step(v *values) {
	exam, step := r.examOf(v), v.object("step")
	if exam == nil || step == nil {
		return
	}
	if exam.spec.StudyPath == nil {
		exam.spec.StudyPath = &v1alpha1.StudyPath{}
	}
	exam.spec.StudyPath.Steps = append(exam.spec.StudyPath.Steps, *step)
	exam.steps = append(exam.steps, v.row.Line)
}

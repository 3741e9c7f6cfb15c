// Calls the nine operations of the API by openapi-fetch, with the types that openapi-typescript makes of the contract.
import createClient from "openapi-fetch";
import type { components, paths } from "./contract.js";

const api = createClient<paths>({
  baseUrl: process.env["API_URL"] ?? "",
  headers: { Authorization: `Bearer ${process.env["API_KEY"]}` },
});

// expect returns the data of a response. An error has a code.
function expect<T>(name: string, result: { data?: T; error?: components["schemas"]["Error"]; response: Response }): T {
  if (result.data === undefined) throw new Error(`${name}: ${result.response.status} ${result.error?.error}`);
  console.log(name);
  return result.data;
}

const { exams } = expect("listExams", await api.GET("/exam-prep/list", { params: { query: { country_code: "CH" } } }));
const [first] = exams;
if (!first) throw new Error("no exam is served");
const exam = { path: { exam_key: first.exam_key } };
expect("getExamOverview", await api.GET("/exam-prep/{exam_key}/overview", { params: exam }));
expect("getExamResources", await api.GET("/exam-prep/{exam_key}/resources", { params: exam }));
expect("getExamStudyPath", await api.GET("/exam-prep/{exam_key}/study-path", { params: exam }));
const { years } = expect("listMockPapers", await api.GET("/exam-prep/{exam_key}/mock-exams", { params: exam }));
const paper_id = years[0]?.papers[0]?.paper_id;
if (!paper_id) throw new Error("the exam has no paper");
const attempt = expect("openMockPaper", await api.POST("/exam-prep/{exam_key}/mock-exams/open", { params: exam, body: { paper_id } }));
const page = expect(
  "getMockQuestionPage",
  await api.POST("/exam-prep/{exam_key}/mock-exams/questions", { params: exam, body: { paper_id, question_offset: 1 } }),
);
const answers: Record<string, string> = {};
for (const question of [...attempt.questions, ...page.questions]) {
  const [letter] = Object.keys(question.options ?? {});
  if (letter) answers[question.answer_id] = letter;
}
const { feedback } = expect(
  "submitMockAttempt",
  await api.POST("/exam-prep/{exam_key}/mock-exams/submit", { params: exam, body: { attempt_id: attempt.attempt_id, answers } }),
);
const score: number | undefined = feedback.score;
const history = expect("listMockAttempts", await api.GET("/exam-prep/{exam_key}/mock-exams/history", { params: exam }));
if (history.attempts[0]?.score !== score) throw new Error(`the history has the score ${history.attempts[0]?.score}, want ${score}`);
const refused = await api.GET("/exam-prep/{exam_key}/overview", { params: { path: { exam_key: "no-such-exam" } } });
if (refused.error?.error !== "exam_not_found") throw new Error(`an unknown exam gets ${JSON.stringify(refused.error)}`);

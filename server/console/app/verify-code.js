// Functions that verify one delivery: the header Service-Signature, the raw body and the signing secret. docs/webhooks.md has
// complete programs. The shell prints the expected signature, to compare by eye.
export const verifyCode = {
  Go: `func verify(header string, body []byte, secret string) bool {
	t, rest, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", t, body)
	want := hex.EncodeToString(mac.Sum(nil))
	sent, err := strconv.ParseInt(t, 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return false
	}
	return slices.ContainsFunc(strings.Split(rest, ","), func(s string) bool {
		return hmac.Equal([]byte(s), []byte("v1="+want))
	})
}`,
  TypeScript: `import { createHmac, timingSafeEqual } from 'node:crypto';

export function verify(header: string, body: Buffer, secret: string): boolean {
  const [t, ...signatures] = header.split(',');
  const sent = t.replace('t=', '');
  if (!(Math.abs(Date.now() / 1000 - Number(sent)) <= 300)) return false;
  const want = Buffer.from('v1=' + createHmac('sha256', secret).update(sent + '.').update(body).digest('hex'));
  return signatures.map((s) => Buffer.from(s)).some((s) => s.length === want.length && timingSafeEqual(s, want));
}`,
  Python: `import hashlib, hmac, time

def verify(header: str, body: bytes, secret: str) -> bool:
    t, *signatures = header.split(",")
    sent = t.removeprefix("t=")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > 300:
        return False
    want = "v1=" + hmac.new(secret.encode(), sent.encode() + b"." + body, hashlib.sha256).hexdigest()
    return any([hmac.compare_digest(want.encode(), s.encode()) for s in signatures])`,
  Shell: `# T is the number after t= in the header, body.json the exact bytes of the body.
{ printf '%s.' "$T"; cat body.json; } | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" -r | sed 's/^/v1=/; s/ .*//'`,
};

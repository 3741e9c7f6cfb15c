// Types for the check of types only; nothing of this reaches a browser. The contract's types come first.

type Schemas = import('api').components['schemas'];
type Session = Schemas['Session'];
type Account = Schemas['AccountList']['accounts'][number];
type Offer = Schemas['OfferList']['invitations'][number];
type OpenSession = Schemas['SessionList']['sessions'][number];
type Member = Schemas['Member'];
type Invitation = Schemas['Invitation'];
type AuditEntry = Schemas['AuditList']['entries'][number];
type Overview = Schemas['Overview'];
type RequestsOfDay = Schemas['RequestsOfDay'];
type Key = Schemas['Key'];
type NewKey = Schemas['RotatedKey'];
type UsageOfDay = Schemas['UsageOfDay'];
type Webhook = Schemas['WebhookDetail'];
type Delivery = Schemas['Delivery'];
type DeliveryDetail = Schemas['DeliveryDetail'];
type Try = Schemas['DeliveryTry'];
type ErrorBody = Omit<Schemas['Error'], 'error'> & { error: string };

type APIError = import('./api.js').APIError;
type ShapeName = 'good' | 'bad' | 'waiting' | 'warning' | 'rotating' | 'off' | 'invited';
type Place = { path: string; params: URLSearchParams; moved: boolean };
type Action = { run: (...args: any[]) => Promise<void>; busy: boolean; error: APIError | null };
type OfMember = { member: Member; onClose: () => void };
type EndpointFields = { url: string; events: string[]; description: string };

/** What is known about a path of the API. */
interface Known {
  data?: any;
  error?: APIError;
  loading: boolean;
  /** A change came during the request, so its response may lack that change. */
  again?: boolean;
  /** When the request is repeated, in milliseconds since 1970; 0 if it is not. */
  retryAt: number;
  timer: number;
  watchers: Set<Watcher>;
}
interface Watcher {
  redraw: () => void;
  /** Milliseconds to the next reading; 0 for none. */
  every?: (data: any) => number;
}
type Query = Pick<Known, 'data' | 'error' | 'loading' | 'retryAt'> & { reload: () => void };

interface Column {
  head: string;
  /** Pixels; without a width the column takes the rest. */
  width?: number;
  /** Class of its cells. */
  look?: string;
  /** Length of its bar in the skeleton, in per cent. */
  bar?: number;
  cell: (row: any) => unknown;
}
/** Rows that belong together, and a sentence about them. */
type Group = { rows: any[]; look?: string; note?: unknown };

interface Secret {
  title: string;
  lead: string;
  /** The secret; the page keeps it only while the dialog is open. */
  text: string;
  /** Label of the copy button. */
  copy: string;
  /** The question that closing asks before the text was copied. */
  warning: string;
  /** What the toast says afterwards. */
  done: unknown;
  more?: unknown;
  usage?: (onCopied: () => void) => unknown;
}

/** One part of the bars: a key, or the keys that are too small for a part of their own. */
type Part = { prefix: string; name: string; allowed: number; limited: number };
/** The counts of a day; allowed has a number for each part. */
type Day = { day: string; allowed: number[]; total: number; limited: number };

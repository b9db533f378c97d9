// The types of everything that pets writes with --json (docs/scripting.md).

/** An integer from -2^63 to 2^63 - 1, with all digits. A JavaScript number is exact only up to 2^53. */
export type Int64 = number;
/** ISO 8601 in UTC: "2026-11-20T12:00:00.000Z". */
export type Instant = string;

/** The document on stdout, by command. */
export type Output = {
  list: Pet[];
  'list --ndjson': Pet; // one per line
  find: Pet[]; // find and list with --columns: objects with only these fields
  count: AnimalCount[];
  'count --by category': AnimalCount[];
  'get <id>': Pet;
  'get <id> <id>...': Pet[]; // the animals that exist, in the order of the ids
  'add <name>': Pet;
  'import <file>': AddedRow[]; // in the order of the file
  'import <file> --dry-run': NewPet[];
  orders: unknown; // as the service sent them; with --columns, a list of objects with these fields
  'orders --ndjson': unknown; // one per line
  profiles: ProfileRow[];
  'profiles --check': ProfileRow[];
  'keys add': CreatedKey;
  'keys list': Key[];
  'store check': Store;
  'store copy': Store; // the copy
  'store migrate': Migration;
  'store migrate --dry-run': PendingMigration;
  serve: Listening | Page | Stopped; // one per line, as they happen
  'serve -- <command>': Listening | Page | Stopped; // one per line on stderr; stdout belongs to the command
};

/** An object on a line of stderr has one of these fields. */
export type Message = {
  notice: string;
  wait: { reason: WaitReason; status?: number; seconds: number; until: Instant }; // status: of a server error
  progress: { done: number; rows: number }; // import, every 15 seconds
  fault: { source: string; line: number; message: string }; // import, serve --seed: an invalid row; no row is used
  addedAgain: { line: number; name: string }[]; // import: rows that are sent although equal ones were added before
  request: Request; // serve --log
  debug: Attempt | { stack: string }; // with --debug
  error: {
    code: string; // from pets, from the service, or http_<status>
    message: string;
    hint?: string; // what to do next
    status?: number; // HTTP status of the response; also 429 if an earlier rate limit prevented the request
    until?: Instant; // rate limit: its end, if the service has named it, or the end of the shared cool-down
    mayHaveBeenAdded?: true; // an animal may or may not have been added
    idempotencyKey?: string; // outcome unknown: a retry with this key is safe
    exitCode?: number; // missing if pets serve keeps running
  };
};

/** The response to a request. `method` and `url` are "-" if the request was not valid HTTP. */
export type Request = {
  time: Instant; // when the response was sent
  id: string; // X-Request-Id
  keyName?: string; // missing without a valid API key
  client: string; // IP address
  method: string;
  url: string;
  status: number;
  milliseconds: number;
  because?: string; // why; only for an error or the request of a page that may not use the service
};

export type WaitReason =
  | 'rate limit'
  | 'server error'
  | 'connection'
  | 'still in progress'
  | 'earlier requests';

export type PetStatus = 'available' | 'pending' | 'sold';
/**
 * As the service sends it, with all digits of numbers; it may have more fields. A notice reports an animal that does not
 * match the specification; its id or category may also be a number beyond Int64, and a service may even send a category or
 * a status of another type.
 */
export type Pet = { id: Int64 | string; name: string; status?: string | null; categoryId?: Int64 | null };
/** A number of animals with the same values of the fields of --by. A value is null if the animals do not have the field. */
export type AnimalCount = { status?: string | null; categoryId?: Int64 | string | null; animals: number };
export type NewPet = { name: string; categoryId: Int64; status?: PetStatus };

/** The result of a row; `line` is its line in the file, or its number in a JSON array, from 1. */
export type AddedRow =
  | { line: number; result: 'added'; pet: Pet; before?: true } // `before`: by an earlier run
  | { line: number; result: 'failed'; pet: NewPet; error: { code: string; message: string; status: number } }
  | {
      line: number;
      result: 'unknown'; // it may have been added
      pet: NewPet;
      error: { code: 'outcome_unknown'; message: string; mayHaveBeenAdded: true };
      idempotencyKey: string;
      candidates?: (Int64 | string)[]; // after a comparison with the inventory: ids of animals that may be the row's, at most 20
    };

export type ProfileRow = {
  profile: 'prod' | 'staging' | 'local' | 'environment'; // 'environment': PETS_API_KEY
  baseUrl: string | null;
  key: string | null; // redacted: "…sLTg"
  default: boolean;
  damaged?: true; // its file cannot be read
  check?: {
    ok: boolean;
    message: string;
    code?: string;
    limit?: number; // the rate limit with the fewest requests left
    remaining?: number;
    reset?: Instant;
  };
};

export type Plan = 'free' | 'pro' | 'business' | 'enterprise';
export type CreatedKey = {
  name: string;
  plan: Plan;
  quota: { perMinute: number; perDay: number };
  key: string;
};
/** A key of the store. */
export type Key = {
  name: string;
  plan: Plan;
  perMinute: number;
  perDay: number;
  created: Instant;
  bannedUntil: Instant | null; // null if the key is not banned
};
/**
 * `directory` may also be the URL of a database, without its password, in every document and event that has this field.
 * `sequence` is the number of records in the journal. Animals that were written together are one record. A copy has its
 * own records, so its number can be another one. It is null for a store without a journal.
 */
export type Store = {
  directory: string;
  id: string;
  animals: number;
  orders: number;
  keys: number;
  lastId: Int64 | null;
  sequence: number | null;
};

/** Whether the command created the schema of the database. */
export type Migration = { directory: string; created: boolean };
/** `sql` is empty if the schema is up to date. */
export type PendingMigration = { directory: string; sql: string };

export type Listening = {
  event: 'listening';
  url: string; // with /v1
  openapi: string; // address of the description of the API
  port: number;
  pid: number;
  store: string; // id of the store
  directory: string;
  animals: number;
  seeded: boolean;
  plan?: Plan; // of `key`, or of the key that you have chosen; missing if there is none
  key?: string; // missing if no key of the store is saved on this machine, or if you have chosen the key
  faults?: Faults;
  token?: string; // the developer token; missing if you have chosen it
  page?: string; // the address that opens the page once; missing if the developer tools are turned off
};
export type Page = { event: 'page'; page: string }; // the address of the page, after the one before was used
export type Stopped = { event: 'stopped' };
/** `latency` in milliseconds, `failRate` from 0 to 1; `seed` repeats the same faults. */
export type Faults = { latency?: Latency; failRate?: number; seed: number; rules?: FaultRule[] };
export type Latency = { min: number; max: number };
/** The rules of `--faults`; see testing.md. */
export type FaultRule = {
  match?: { method?: string; path?: string };
  answer?: number;
  times?: number;
  retryAfter?: number; // in seconds
  latency?: number; // in milliseconds
};

/** One attempt of a request; keys are redacted. */
export type Attempt = {
  method: string;
  url: string;
  milliseconds: number; // that it took
  request: Headers;
  requestBody?: string; // its first 4,096 characters
  status?: number;
  headers?: Headers;
  body?: string; // of the response, its first 4,096 characters
  failure?: string; // instead of status, headers and body
};
export type Headers = { [name: string]: string | string[] };

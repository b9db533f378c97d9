import type { Dispatcher } from 'undici';
import type { Clock } from '../contract/clock.ts';
import { tryParseJson } from '../contract/json.ts';
import type { Attempt, Outcome, Reply, Times } from './attempt.ts';
import {
  type ClientError,
  ContractError,
  HeldBackError,
  InterruptedError,
  NetworkError,
  TimeoutError,
} from './errors.ts';
import { type ReplyHeaders, readHeader } from './headers.ts';

/** A page of 100 animals with the longest sensible names is far below; a runaway reply is far above. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

/**
 * One attempt on its way. Undici tells `onRequestStart` when a connection stands and before it writes the first byte:
 * whatever fails before that has sent nothing, whatever fails behind it may have been carried out.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #attempt: Attempt;
  readonly #clock: Clock;
  readonly #started: number;
  readonly #times: Times = { whole: 0 };
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #status = 0;
  #headers: ReplyHeaders = {};
  #sent = false;
  #controller: Dispatcher.DispatchController | undefined;
  #settle: ((outcome: Outcome) => void) | undefined;

  constructor(attempt: Attempt, clock: Clock) {
    this.#attempt = attempt;
    this.#clock = clock;
    this.#started = clock.now();
  }

  async run(dispatcher: Dispatcher): Promise<{ outcome: Outcome; times: Times }> {
    const { url, method, headers, body, timeoutMilliseconds, signal } = this.#attempt;
    const settled = new Promise<Outcome>((resolve) => {
      this.#settle = resolve;
    });
    // The attempt's own deadline rules, and from the first moment: undici has none for a name that is looked up.
    const expire = () => this.#fail(new TimeoutError(timeoutMilliseconds, { sent: this.#sent }));
    // What has arrived while a slow reader of our output held up the process is read first.
    const timer = setTimeout(() => setImmediate(expire), timeoutMilliseconds);
    const interrupt = () => this.#fail(new InterruptedError({ sent: this.#sent }));
    signal.addEventListener('abort', interrupt);
    if (signal.aborted) interrupt();
    else {
      const path = url.pathname + url.search;
      dispatcher.dispatch({ origin: url.origin, path, method, headers, body: body ?? null }, this);
    }
    const outcome = await settled;
    clearTimeout(timer);
    signal.removeEventListener('abort', interrupt);
    this.#times.whole = this.#elapsed();
    return { outcome, times: this.#times };
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#times.connected ??= this.#elapsed();
    if (this.#settle === undefined) controller.abort(new Error('nobody waits for it any more'));
    else if (this.#attempt.mayStart()) this.#sent = true;
    else this.#fail(new HeldBackError('held back'));
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: ReplyHeaders): void {
    this.#times.firstByte ??= this.#elapsed();
    // Of an answer in several parts the last one counts.
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size <= MAX_REPLY_BYTES) this.#chunks.push(chunk);
    else {
      this.#fail(new ContractError(this.#status, `the reply is larger than ${MAX_REPLY_BYTES} bytes`));
    }
  }

  onResponseEnd(): void {
    const body = Buffer.concat(this.#chunks).toString('utf8');
    const reply = { status: this.#status, headers: this.#headers, body };
    this.#end(isCut(reply) ? { failure: new NetworkError('the answer was cut', { sent: true }) } : { reply });
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    const code = codeOf(error);
    const message = error.message || String(code ?? error);
    // Undici's word for a proxy's 407, behind which nothing was passed on, and for what it does not send itself.
    const sent = this.#sent && code !== 'UND_ERR_INVALID_ARG';
    this.#end({ failure: new NetworkError(message, { code, sent, cause: error }) });
  }

  #fail(failure: ClientError): void {
    this.#end({ failure });
    this.#controller?.abort(failure);
  }

  #end(outcome: Outcome): void {
    this.#settle?.(outcome);
    this.#settle = undefined;
  }

  #elapsed(): number {
    return this.#clock.now() - this.#started;
  }
}

/** Without a length and without chunks nothing but the text itself tells that the connection was cut in it. */
function isCut({ status, headers, body }: Reply): boolean {
  const isFramed = ['Content-Length', 'Transfer-Encoding'].some(
    (name) => readHeader(headers, name) !== undefined,
  );
  const isJson = readHeader(headers, 'Content-Type')?.includes('json') === true;
  return !isFramed && isJson && (status === 200 || status === 201) && tryParseJson(body) === undefined;
}

/** An AggregateError (several addresses tried) has its code inside. */
function codeOf(error: unknown): string | undefined {
  const { code, errors, cause } = error as { code?: unknown; errors?: unknown[]; cause?: unknown };
  if (typeof code === 'string') return code;
  return [...(errors ?? []), ...(cause ? [cause] : [])].map(codeOf).find((inner) => inner !== undefined);
}

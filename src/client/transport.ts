import { Agent, type Dispatcher, request } from 'undici';
import { ContractError, InterruptedError, NetworkError, TimeoutError } from './errors.ts';
import type { ReplyHeaders } from './headers.ts';

export type Reply = { status: number; headers: ReplyHeaders; body: string };

export type Attempt = {
  method: 'GET' | 'POST';
  url: URL;
  headers: Record<string, string>;
  body?: string | undefined;
  /** For the whole attempt, from connecting to the last byte. */
  timeoutMilliseconds: number;
  signal: AbortSignal;
};

/** Sends one attempt and reads its whole reply. It never retries and never follows a redirect. */
export interface Transport {
  /** @throws NetworkError, TimeoutError, ContractError (a reply too large), InterruptedError */
  send(attempt: Attempt): Promise<Reply>;
  close(): Promise<void>;
}

/** A page of 100 animals with the longest sensible names is far below; a runaway reply is far above. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

export function createTransport(): Transport {
  // The attempt's own deadline rules: undici's would end it earlier, or not at all.
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 0 } });
  return {
    async send({ method, url, headers, body, timeoutMilliseconds, signal }) {
      const deadline = AbortSignal.timeout(timeoutMilliseconds);
      try {
        const reply = await request(url, {
          dispatcher,
          method,
          headers,
          body: body ?? null,
          signal: AbortSignal.any([signal, deadline]),
        });
        return { status: reply.statusCode, headers: reply.headers, body: await readBody(reply) };
      } catch (error) {
        if (error instanceof ContractError) throw error;
        if (signal.aborted) throw new InterruptedError('interrupted');
        if (deadline.aborted) throw new TimeoutError(timeoutMilliseconds, { sent: true });
        throw networkError(error);
      }
    },
    close: () => dispatcher.destroy(),
  };
}

async function readBody(reply: Dispatcher.ResponseData): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of reply.body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_REPLY_BYTES) {
      throw new ContractError(reply.statusCode, `the reply is larger than ${MAX_REPLY_BYTES} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Failures before a connection stood: the service cannot have seen the request. */
const NOTHING_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_HAS_EXPIRED',
]);

function networkError(error: unknown): NetworkError {
  const code = codeOf(error);
  const message = error instanceof Error && error.message !== '' ? error.message : String(code ?? error);
  return new NetworkError(message, {
    code,
    sent: code === undefined || !NOTHING_SENT.has(code),
    cause: error,
  });
}

/** An AggregateError (several addresses tried) has its code inside. */
function codeOf(error: unknown): string | undefined {
  const { code, errors } = error as { code?: unknown; errors?: unknown[] };
  if (typeof code === 'string') return code;
  return errors?.map(codeOf).find((inner) => inner !== undefined);
}

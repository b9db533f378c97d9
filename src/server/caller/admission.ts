import type { IncomingMessage } from 'node:http';
import type { Clock } from '../../contract/clock.ts';
import { header } from '../../contract/headers.ts';
import { type Awaitable, attempt, next } from '../awaitable.ts';
import type { Limiter, Window } from '../limits/limiter.ts';
import { overLimit, unauthorized } from '../refusals.ts';
import { type Caller, createKeyReader, type KeyDirectory } from './auth.ts';

/** What is known of a request so far: every answer, an error too, goes out with it. It is over once that leaves. */
export type Exchange = { window?: Window; headers: Record<string, string>; isOver?: true };

export type AdmissionOptions = {
  keys: KeyDirectory;
  /** Counts the requests of each key. */
  limiter: Limiter;
  /** Counts the requests without a valid key, by address (design D13). */
  strangers: Limiter;
  /** Whether a stranger over the limit is refused. */
  limitFailedKeys?: boolean | undefined;
  clock: Clock;
  /** Told of what is the service's own fault. */
  onError(error: unknown): void;
};

export type Admission = ReturnType<typeof createAdmission>;

/** The window that a caller without a valid key sees (design D13). */
const ANONYMOUS = { perMinute: 60, perDay: Number.POSITIVE_INFINITY };

/** Who asks, and what the limits let it do. */
export function createAdmission(options: AdmissionOptions) {
  const { keys, limiter, strangers, limitFailedKeys = false, clock, onError } = options;
  const readKey = createKeyReader();

  /** A stranger's request is counted by its address, whatever is wrong with it. */
  const refuse = (error: unknown, request: IncomingMessage, exchange: Exchange): Awaitable<never> =>
    next(strangers.take(addressOf(request.socket.remoteAddress), ANONYMOUS), (verdict) => {
      exchange.window = verdict.window;
      const isRefused = limitFailedKeys && verdict.retryAt !== undefined;
      throw isRefused ? overLimit(verdict, clock.now()) : error;
    });

  return {
    /** @throws ServiceError 401 or 400; 429 where strangers are limited */
    identify(request: IncomingMessage, exchange: Exchange): Awaitable<Caller> {
      const find = (): Awaitable<Caller> => {
        const id = readKey(request);
        // The same for a missing and for an invalid key.
        if (id === undefined) throw unauthorized();
        return next(keys.find(id, clock.now()), (known) => {
          if (known === undefined) throw unauthorized();
          return { id, quota: known.quota };
        });
      };
      return attempt(find, (error) => refuse(error, request, exchange));
    },

    /** Counts a request of a known caller. @throws ServiceError 429 */
    count({ id, quota }: Caller, exchange: Exchange): Awaitable<void> {
      return next(limiter.take(id, quota), (verdict) => {
        welcome(exchange, verdict.window);
        if (verdict.retryAt !== undefined) throw overLimit(verdict, clock.now());
      });
    },

    /** Tells a known caller of its limit, and counts nothing. */
    greet({ id, quota }: Caller, exchange: Exchange): Awaitable<Window> {
      return next(limiter.peek(id, quota), ({ window }) => {
        welcome(exchange, window);
        return window;
      });
    },

    /** The window of an answer to nobody in particular. */
    strangersWindow(address: string | undefined): Awaitable<Window> {
      const peek = () => next(strangers.peek(addressOf(address), ANONYMOUS), ({ window }) => window);
      return attempt(peek, (error) => {
        // Every answer goes out, also when the limiter is what has failed.
        onError(error);
        return { limit: ANONYMOUS.perMinute, remaining: 0, resetAt: clock.now() };
      });
    },
  };
}

/** What goes with every answer to a valid key. */
function welcome(exchange: Exchange, window: Window): void {
  exchange.window = window;
  exchange.headers[header.idempotencySupported] = 'true';
}

const addressOf = (address: string | undefined): string => address ?? 'unknown';

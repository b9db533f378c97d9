import type { Api } from './api.ts';
import {
  emptyLog,
  mergePoll,
  type PollResponse,
  pollQuery,
  type RequestLog,
  readPoll,
} from './request-log.ts';

/** The pause between two polls, in milliseconds, and the longest pause after failures. */
const MIN_DELAY = 500;
const MAX_DELAY = 10_000;

/** Resolves after a time, or as soon as the signal is aborted. */
export const sleep = (milliseconds: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener('abort', end);
  });

/** Repeats an action with a pause after each time, until the signal is aborted. The action must not reject. */
export async function repeat(
  milliseconds: number,
  signal: AbortSignal,
  action: () => Promise<unknown>,
): Promise<void> {
  while (!signal.aborted) {
    await action();
    await sleep(milliseconds, signal);
  }
}

/** What `follow` reports. `requests` are those that the last poll returned, and `isFirst` whether it was the first one. */
export type PollEvents = {
  onPoll(log: RequestLog, requests: PollResponse['requests'], isFirst: boolean): void;
  onFailure(error: unknown): void;
};

export type Follower = ReturnType<typeof createFollower>;

/** Follows the requests to the service with one long poll at a time. */
export function createFollower(api: Pick<Api, 'get'>, { onPoll, onFailure }: PollEvents) {
  let log = emptyLog;

  async function read(query: string, signal: AbortSignal): Promise<PollResponse | undefined> {
    try {
      return readPoll((await api.get(`requests?${query}`, signal)) as PollResponse);
    } catch (error) {
      if (!signal.aborted) onFailure(error);
      return undefined;
    }
  }

  return {
    /** Polls until the signal is aborted. */
    async follow(signal: AbortSignal): Promise<void> {
      let failures = 0;
      while (!signal.aborted) {
        const asked = log;
        const response = await read(pollQuery(asked), signal);
        if (signal.aborted) return;
        if (response === undefined) failures++;
        else {
          failures = 0;
          // The user may have cleared the list while the poll waited.
          log = asked.start === log.start ? mergePoll(log, response) : log;
          onPoll(log, response.requests, asked.readsAll);
        }
        await sleep(Math.min(MAX_DELAY, MIN_DELAY * 2 ** failures), signal);
      }
    },

    /** Replaces the log, for example to clear the list. */
    update(change: (log: RequestLog) => RequestLog): RequestLog {
      log = change(log);
      return log;
    },
  };
}

import { ApiError } from './api.ts';
import { byId } from './element.ts';

/** The shortest time between two announcements, in milliseconds. */
const ANNOUNCE_MS = 5_000;

/** How the page is connected to the service; the style sheet shows each state with its colour. */
export type ConnectionState = 'live' | 'paused' | 'lost';

const words: Readonly<Record<ConnectionState, string>> = {
  live: 'Live',
  paused: 'Paused',
  lost: 'No connection. Trying again…',
};

/** Shows how the page is connected. */
export function showConnection(state: ConnectionState, reason = words[state]): void {
  const status = byId('connection');
  status.dataset['state'] = state;
  if (status.textContent !== reason) status.textContent = reason;
}

export const failureReason = (error: unknown): string =>
  error instanceof ApiError ? error.message : 'The server has stopped or cannot be reached. Trying again…';

/** Returns a function that lets screen readers read a text. If texts arrive faster than `ANNOUNCE_MS`, some are skipped. */
export function createAnnouncer(): (text: string) => void {
  const region = byId('announcer');
  let next: string | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const announceNext = () => {
    timer = undefined;
    if (next === undefined) return;
    region.textContent = next;
    next = undefined;
    timer = setTimeout(announceNext, ANNOUNCE_MS);
  };
  return (text) => {
    next = text;
    if (timer === undefined) announceNext();
  };
}

import { API_KEY_PATTERN } from '../contract/headers.ts';
import { parseJson, tryParseJson } from '../contract/json.ts';

const STORAGE_KEY = 'pets-token';

/** An error response of the service, with its message. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** There is no response, for example because the server has stopped or the request was aborted. */
export class ConnectionFailure extends Error {}

export type Api = ReturnType<typeof createApi>;

/** Sends requests to the developer tools. After a 401, calls `onUnauthorized` and sends nothing until there is a new token. */
export function createApi(onUnauthorized: () => void) {
  let token = sessionStorage.getItem(STORAGE_KEY) ?? '';

  async function send(
    method: string,
    path: string,
    { body, signal }: { body?: string; signal?: AbortSignal } = {},
  ): Promise<unknown> {
    if (token === '') throw new ApiError(401, 'There is no token');
    const used = token;
    const { response, text } = await receive(path, {
      method,
      headers: {
        Authorization: `Bearer ${used}`,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      body: body ?? null,
      signal: signal ?? null,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    });
    if (response.ok) return parseJson(text);
    if (response.status === 401 && used === token) {
      setToken('');
      onUnauthorized();
    }
    const { message } = (tryParseJson(text) ?? {}) as { message?: unknown };
    throw new ApiError(
      response.status,
      typeof message === 'string' ? message : `HTTP status ${response.status}`,
    );
  }

  /** Exchanges the code at the end of the address for a token. @throws ApiError, ConnectionFailure */
  async function openSession(code: string): Promise<void> {
    const { response, text } = await receive('/session', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ code }),
    });
    const { token: opened, message } = tryParseJson(text) as Record<string, string>;
    if (!response.ok) throw new ApiError(response.status, message ?? '');
    setToken(opened ?? '');
  }

  function setToken(value: string): void {
    token = API_KEY_PATTERN.test(value) ? value : '';
    if (token === '') sessionStorage.removeItem(STORAGE_KEY);
    else sessionStorage.setItem(STORAGE_KEY, token);
  }

  return {
    send,
    openSession,
    get: (path: string, signal?: AbortSignal) => send('GET', path, signal && { signal }),
    /** Sets the token. Without a valid one, there are no requests. */
    setToken,
    hasToken: () => token !== '',
  };
}

async function receive(path: string, init: RequestInit): Promise<{ response: Response; text: string }> {
  try {
    const response = await fetch(path, init);
    return { response, text: await response.text() };
  } catch (error) {
    throw new ConnectionFailure('There is no response', { cause: error });
  }
}

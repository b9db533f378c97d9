const STORAGE_KEY = 'pets-session';

const storedToken = (): string => localStorage.getItem(STORAGE_KEY) ?? '';

/** The address of the service, without a slash at the end. A reverse proxy may serve it below a path. */
export const serviceUrl = (): string => new URL('.', location.href).href.slice(0, -1);

/** How long the page waits for the response to a `GET`. */
const TIMEOUT_MS = 8_000;

/** Sends requests with the token of the session, shared by all tabs. A 401 for it ends the session (`onSignedOut`). */
export function createToolsClient(onSignedOut: (message: string) => void) {
  let token = storedToken();

  /** Sends a request, and returns the JSON in the response. @throws Error with a message for the user */
  async function send(method: string, path: string, body?: string, signal?: AbortSignal): Promise<unknown> {
    const used = path === 'session' ? '' : token;
    const signals = [signal, method === 'GET' && AbortSignal.timeout(TIMEOUT_MS)].filter((each) => !!each);
    const { response, content } = await receive(path, {
      method,
      headers: {
        ...(used !== '' && { Authorization: `Bearer ${used}` }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
      },
      body: body ?? null,
      signal: AbortSignal.any(signals),
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    });
    if (response.ok) return content;
    if (response.status !== 401) throw new Error(content.message ?? `HTTP status ${response.status}`);
    const message = 'The server was started again, or this address is old';
    // Another tab may have begun a new session in the meantime.
    if (used !== '' && used === token) {
      token = '';
      localStorage.removeItem(STORAGE_KEY);
      onSignedOut(message);
    }
    throw new Error(message);
  }

  return {
    send,
    hasSession: () => token !== '',
    /** Exchanges the code of an address for a session. @throws Error with a message for the user */
    async signIn(code: string): Promise<void> {
      const response = await send('POST', 'session', JSON.stringify({ code }));
      token = (response as { token: string }).token;
      localStorage.setItem(STORAGE_KEY, token);
    },
    /** Continues with a session that another tab has begun. Returns whether there is one. */
    adoptSession(): boolean {
      const stored = storedToken();
      const isNew = stored !== '' && stored !== token;
      if (isNew) token = stored;
      return isNew;
    },
  };
}

/** Returns a response and its JSON. @throws Error if no response arrives, or one that is not JSON, such as a proxy's */
async function receive(path: string, init: RequestInit) {
  try {
    const response = await fetch(path, init);
    return { response, content: (await response.json()) as { message?: string } };
  } catch (error) {
    throw new Error('The server has stopped or cannot be reached', { cause: error });
  }
}

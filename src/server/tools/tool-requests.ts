import type { IncomingMessage } from 'node:http';
import type { ApiKeyLookup, Authentication } from '../auth/authentication.ts';
import { methodNotAllowed, notFound, ServiceError, unauthorized } from '../http-errors.ts';
import type { RequestContext } from '../request/context.ts';
import { checkExpectation } from '../request/http-checks.ts';
import { validateTarget } from '../request/target.ts';
import { optionsResponse, type ServiceResponse } from '../response.ts';
import type { ToolCredentials } from './credentials.ts';

/** The paths of the developer tools (docs/service.md 13). Their responses never have CORS headers. */
const paths = ['/requests', '/keys', '/reset', '/faults'] as const;
const TOOL_PATHS: ReadonlySet<string> = new Set(paths);

export type ToolPath = (typeof paths)[number];

/** Whether a path is one of the developer tools, also if the tools are turned off. */
export const isToolPath = (path: string): boolean => TOOL_PATHS.has(path);

/** Carries out a request that may use the tools. */
export type ToolHandler = (request: IncomingMessage, context: RequestContext) => Promise<ServiceResponse>;

/** The methods of a tool, besides OPTIONS. A tool with GET also supports HEAD. */
export type ToolMethods = Readonly<Partial<Record<'GET' | 'POST' | 'PUT' | 'DELETE', ToolHandler>>>;

export type Tools = {
  credentials: ToolCredentials;
  /** The tools by their paths. */
  routes: ReadonlyMap<string, ToolMethods>;
};

/**
 * Returns a function that responds to a request for a tool, if the request may use it (docs/service.md 13). Such requests
 * are not counted, except those without a valid credential (5.2).
 */
export function createToolRequests(
  { credentials, routes }: Tools,
  keys: ApiKeyLookup,
  { hashOfKey, countAnonymous }: Pick<Authentication, 'hashOfKey' | 'countAnonymous'>,
): ToolHandler {
  return async (request, context) => {
    const path = validateTarget(request.url ?? '');
    const methods = routes.get(path);
    if (methods === undefined) throw notFound();
    context.operation = path;
    checkSite(request);
    const { method = '' } = request;
    const allow = allowHeader(methods);
    if (method === 'OPTIONS') return optionsResponse(allow);
    await authorize(request, context);
    const handler = methods[(method === 'HEAD' ? 'GET' : method) as keyof ToolMethods];
    if (handler === undefined) throw methodNotAllowed(path, allow);
    checkExpectation(request);
    const { headers, ...response } = await handler(request, context);
    return { ...response, headers: { 'Cache-Control': 'no-store', ...headers } };
  };

  /** @throws ServiceError 400, 401, or 429 if requests without a valid key are limited */
  async function authorize(request: IncomingMessage, context: RequestContext): Promise<void> {
    const sha256 = hashOfKey(request);
    const kind = sha256 && credentials.identify(sha256);
    if (kind === 'token') return;
    // The key may have been revoked since the start.
    const key = sha256 && kind === 'key' ? await keys.find(sha256) : undefined;
    if (key === undefined) {
      await countAnonymous(context);
      throw unauthorized();
    }
    context.keyName = key.name;
  }
}

/**
 * Refuses requests that a browser sends for a page of another origin, such as another port of this machine. Other clients do
 * not send this header.
 *
 * @throws ServiceError 403
 */
function checkSite({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'] ?? 'none';
  if (site === 'none' || site === 'same-origin') return;
  throw new ServiceError('forbidden', 'Pages of other origins cannot use this path');
}

function allowHeader(methods: ToolMethods): string {
  const names = Object.keys(methods).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method));
  return [...names, 'OPTIONS'].join(', ');
}

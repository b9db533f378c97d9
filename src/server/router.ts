import { API_PREFIX, type Operation, type OperationName, operations } from '../contract/operations.ts';

export type Route = { operation: OperationName; params: Record<string, string> };

/** What stands at a path: the route of each method that it has; undefined where there is nothing. */
export type Resource = ReadonlyMap<string, Route>;

type Template = { name: OperationName; operation: Operation; parts: readonly string[] };

const templates: readonly Template[] = Object.entries(operations).map(([name, operation]) => ({
  name: name as OperationName,
  operation,
  parts: `${API_PREFIX}${operation.path}`.slice(1).split('/'),
}));

/** Finds what the operations table has at a path, given as its decoded segments. */
export function findResource(segments: readonly string[]): Resource | undefined {
  const resource = new Map<string, Route>();
  for (const { name, operation, parts } of templates) {
    const params = match(parts, segments);
    if (params) resource.set(operation.method, { operation: name, params });
  }
  return resource.size === 0 ? undefined : resource;
}

/** The methods of a resource as an Allow header lists them: HEAD comes with GET, and OPTIONS is everywhere. */
export function allowedMethods(resource: Resource): string {
  return [...[...resource.keys()].flatMap(methodsOf), 'OPTIONS'].join(', ');
}

function methodsOf(method: string): string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method];
}

/** Every method of the service, for who asks with one that no resource has. */
export const allMethods = [
  ...new Set(templates.flatMap(({ operation }) => methodsOf(operation.method))),
  'OPTIONS',
].join(', ');

function match(parts: readonly string[], segments: readonly string[]): Record<string, string> | undefined {
  if (parts.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of parts.entries()) {
    const segment = segments[i] ?? '';
    if (part.startsWith('{')) params[part.slice(1, -1)] = segment;
    else if (part !== segment) return undefined;
  }
  return params;
}

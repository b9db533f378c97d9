import { API_PREFIX, type Operation, type OperationName, operations } from '../contract/operations.ts';
import { segmentsOf } from './request/target.ts';

/** What stands at a path: the operation of each method that it has, and the path's parameters. */
export type Resource = {
  operations: ReadonlyMap<string, OperationName>;
  params: Readonly<Record<string, string>>;
};

type Template = { parts: readonly string[]; operations: Map<string, OperationName> };

const templates = new Map<string, Template>();
for (const [name, { method, path }] of Object.entries(operations) as [OperationName, Operation][]) {
  const whole = API_PREFIX + path;
  const template = templates.get(whole) ?? { parts: whole.slice(1).split('/'), operations: new Map() };
  templates.set(whole, template);
  template.operations.set(method, name);
}

/** Those without a parameter: most requests name one of them letter for letter, and nothing need be taken apart. */
const plain = new Map<string, Resource>();
for (const [path, { operations }] of templates) {
  if (!path.includes('{')) plain.set(path, { operations, params: {} });
}

/**
 * Finds what the operations table has at a path, given as it was sent.
 *
 * @throws ServiceError `invalid_request` for malformed percent-encoding
 */
export function findResource(path: string): Resource | undefined {
  const known = plain.get(path);
  if (known) return known;
  const segments = segmentsOf(path);
  for (const { parts, operations } of templates.values()) {
    const params = match(parts, segments);
    if (params) return { operations, params };
  }
  return undefined;
}

/** The methods of a resource as an Allow header lists them: HEAD comes with GET, and OPTIONS is everywhere. */
export function allowedMethods({ operations }: Resource): string {
  return [...[...operations.keys()].flatMap(methodsOf), 'OPTIONS'].join(', ');
}

function methodsOf(method: string): string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method];
}

/** Every method of the service, for who asks with one that no resource has. */
export const allMethods = [
  ...new Set(Object.values(operations).flatMap(({ method }) => methodsOf(method))),
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

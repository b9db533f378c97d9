import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect } from 'vitest';
import type * as z from 'zod/mini';
import { API_PREFIX, type Operation, type OperationName, operations } from '../../src/contract/api.ts';

export type Schema = z.core.JSONSchema.BaseSchema;
type Content = Record<string, { schema: Schema; example?: unknown; examples?: Record<string, object> }>;
type HeaderObject = { required: boolean; schema: Schema; example: unknown };
type OperationObject = {
  operationId: OperationName;
  description: string;
  parameters?: { name: string; description: string; schema: Schema; example?: unknown }[];
  requestBody?: { content: Content };
  responses: Record<
    string,
    { description: string; headers?: Record<string, HeaderObject>; content: Content }
  >;
};
type OpenApiDocument = {
  info: { description: string };
  servers: { url: string }[];
  security: object[];
  paths: Record<string, Record<string, OperationObject>>;
  components: {
    schemas: Record<string, { properties?: Record<string, { description: string }> }>;
    headers: Record<string, HeaderObject>;
    securitySchemes: Record<string, object>;
  };
};

/** The OpenAPI document of the service, as it is in the repository. */
export const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../../src/server/openapi.json', import.meta.url), 'utf8'),
);

/** The operations of the contract. */
export const table = Object.entries(operations) as [OperationName, Operation][];

/** The document with each reference replaced by what it refers to, except references that start with `kept`. */
export function dereferenced(kept?: string): OpenApiDocument {
  const resolve = (node: unknown): unknown => {
    if (typeof node !== 'object' || node === null) return node;
    if (Array.isArray(node)) return node.map(resolve);
    const { $ref: ref } = node as { $ref?: string };
    if (ref === undefined || (kept && ref.startsWith(kept)))
      return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolve(value)]));
    const keys = ref.slice(2).split('/');
    return resolve(keys.reduce<unknown>((found, key) => (found as Record<string, unknown>)[key], document));
  };
  return resolve(document) as OpenApiDocument;
}

/** The operations of the document, each with its method and its path, and without references. */
export const described = Object.entries(dereferenced().paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, { parameters = [], ...operation }]) => ({
    ...operation,
    parameters,
    method: method.toUpperCase(),
    path,
    pattern: new RegExp(`^${API_PREFIX}${path.replace(/\{\w+\}/g, '[^/]+')}$`),
  })),
);

type Observed = { status: number; headers: Headers; text: string };

const ajv = addFormats.default(new Ajv2020({ allErrors: true }));
const headersAnywhere = new Set(
  described.flatMap(({ responses }) =>
    Object.values(responses).flatMap(({ headers = {} }) => Object.keys(headers)),
  ),
);

/** How a value differs from its schema. */
export const mismatches = (where: string, schema: Schema, value: unknown): string[] =>
  ajv.validate(schema, value)
    ? []
    : (ajv.errors ?? []).map(({ instancePath, message }) => `${where}${instancePath} ${message}`);

const operationsAt = (path: string) => {
  const [target = ''] = path.split(/[?#]/);
  return described.filter(({ pattern }) => pattern.test(target));
};

/** How a response differs from the document. */
export function violations(method: string, path: string, { status, headers, text }: Observed): string[] {
  const here = operationsAt(path);
  const operation = here.find((each) => each.method === (method === 'HEAD' ? 'GET' : method));
  // An undocumented method gets an error, whose status must be documented for another method of the path.
  if (!operation && status < 400) return [`${method} ${path} is not documented`];
  const found = (operation ? [operation] : here).find(({ responses }) => responses[status]);
  if (found === undefined) return [`${method} ${path}: status ${status} is not documented`];
  const { headers: documented = {}, content = {} } = found.responses[status] ?? {};
  return [
    ...[...headersAnywhere]
      .filter((name) => headers.has(name) && !(name in documented))
      .map((name) => `${name.toLowerCase()} is documented, but not for this response`),
    ...Object.entries(documented).flatMap(([name, { required, schema }]) => {
      const value = headers.get(name);
      if (value === null) return required ? [`${name} is missing`] : [];
      return mismatches(name, schema, decodeHeader(value, schema));
    }),
    ...bodyViolations(method, content, headers, text),
  ];
}

function bodyViolations(method: string, content: Content, headers: Headers, text: string): string[] {
  if (method === 'HEAD') return text === '' ? [] : ['a HEAD has no body'];
  const type = headers.get('content-type')?.split(';')[0]?.trim() ?? '(none)';
  const media = content[type];
  if (media === undefined) return [`Content-Type ${type} is not documented`];
  const value = parseJson(text);
  return value === undefined ? ['the body is not JSON'] : mismatches('body', media.schema, value);
}

/** Checks that the document allows a response. Mocked errors may have any status. Skips OPTIONS and unknown paths. */
export function expectDocumented(method: string, path: string, observed: Observed): void {
  const { headers, text } = observed;
  if (method === 'OPTIONS' || operationsAt(path).length === 0) return;
  const isMocked = headers.has('preference-applied') || text.includes('Mocked response');
  const isAllowed = (violation: string) => isMocked && /: status \d+ is not documented$/.test(violation);
  expect(violations(method, path, observed).filter((each) => !isAllowed(each))).toEqual([]);
}

/** Sends a request, and checks that the document allows the response. `path` has the prefix of the API. */
export async function fetchDocumented(origin: string, path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(origin + path, init);
  const { status, headers } = response;
  const text = await response.clone().text();
  expectDocumented(init.method ?? 'GET', path, { status, headers, text });
  return response;
}

/** Converts a header to the type in its schema. Returns unsuitable text unchanged, so that the validation fails. */
function decodeHeader(text: string, { type }: Schema): unknown {
  const value = parseJson(text);
  return type !== 'string' && String(value) === text ? value : text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { expect } from 'vitest';
import * as z from 'zod/mini';
import { type ErrorCode, errorCodes } from '../../src/contract/error-codes.ts';
import { header } from '../../src/contract/headers.ts';
import { int64, int64Text } from '../../src/contract/json.ts';
import {
  API_PREFIX,
  type Operation,
  type OperationName,
  operations,
  PageLimit,
  pageSize,
} from '../../src/contract/operations.ts';
import { planNames, plans } from '../../src/contract/plans.ts';
import { ErrorBody, NewPet, Orders, Pet, PetStatus, Pets } from '../../src/contract/schemas.ts';

type Schema = z.core.JSONSchema.BaseSchema;
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

/** A document in which each reference is replaced with what it refers to, except references that start with `kept`. */
function dereference<Value>(root: Value, kept?: string): Value {
  const target = (ref: string): unknown => {
    const found = ref
      .slice(2)
      .split('/')
      .reduce((node: unknown, key) => (node as Record<string, unknown> | undefined)?.[key], root);
    if (found === undefined) throw new Error(`${ref} does not exist`);
    return found;
  };
  const resolve = (node: unknown): unknown => {
    if (typeof node !== 'object' || node === null) return node;
    if (Array.isArray(node)) return node.map(resolve);
    if ('$ref' in node && !(kept && `${node.$ref}`.startsWith(kept))) return resolve(target(`${node.$ref}`));
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, resolve(value)]));
  };
  return resolve(root) as Value;
}

/** The operations of a document, each with its method and its path, and without references. */
const operationsOf = (document: OpenApiDocument) =>
  Object.entries(dereference(document).paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { parameters = [], ...operation }]) => ({
      ...operation,
      parameters,
      method: method.toUpperCase(),
      path,
    })),
  );

export const described = operationsOf(document);

export const describedAs = (name: OperationName) => {
  const found = described.find(({ operationId }) => operationId === name);
  if (!found) throw new Error(`${name} is not described`);
  return found;
};

type Observed = { status: number; headers: Headers; text: string };

/** Returns functions that validate responses against an OpenAPI 3.1 document. `source` is its parsed JSON. */
export function conformance(source: unknown) {
  const document = source as OpenApiDocument;
  const all = operationsOf(document);
  const ajv = addFormats.default(new Ajv2020({ allErrors: true }));
  // The URL is relative in the contract's document, and absolute in the one that a service serves.
  const { pathname: base } = new URL(document.servers[0]?.url ?? '', 'http://service');
  const headersAnywhere = new Set(
    all
      .flatMap(({ responses }) => Object.values(responses))
      .flatMap(({ headers = {} }) => Object.keys(headers)),
  );

  const mismatches = ({ where, schema, value }: { where: string; schema: Schema; value: unknown }) =>
    ajv.validate(schema, value)
      ? []
      : (ajv.errors ?? []).map(({ instancePath, message }) => `${where}${instancePath} ${message}`);

  const operationsAt = (path: string) =>
    all.filter((each) =>
      new RegExp(`^${base}${each.path.replace(/\{\w+\}/g, '[^/]+')}$`).test(path.replace(/[?#].*/, '')),
    );

  /** Validates a response; returns the differences from the document. */
  function violations(method: string, path: string, { status, headers, text }: Observed): string[] {
    const here = operationsAt(path);
    if (here.length === 0) return [`${path} is not documented`];
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
        return mismatches({ where: name, schema, value: decodeHeader(value, schema) });
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
    return value === undefined ? ['the body is not JSON'] : mismatches({ where: 'body', ...media, value });
  }

  return {
    violations,
    mismatches,
    /** The example of each header. The linter validates the other examples. */
    examples: () =>
      Object.entries(dereference(document).components.headers).map(([where, { schema, example }]) => ({
        ...{ where, schema, value: example },
      })),
    describes: (path: string) => operationsAt(path).length > 0,
  };
}

const { violations, describes } = conformance(document);

/** Checks that the document allows a response. Mocked errors may have any status. Skips OPTIONS and unknown paths. */
export function expectDocumented(method: string, path: string, observed: Observed): void {
  const { headers, text } = observed;
  if (method === 'OPTIONS' || !describes(path)) return;
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

// To compare the OpenAPI document with the contract, two functions return facts in the same form: `factsOf` reads them
// from a document, and `factsOfContract` derives them from the tables of the contract. Texts are left out, except those
// that repeat a value of the contract.

const SCHEMAS = '#/components/schemas/';

/** A part of a document without descriptions, examples of single values, headers of responses, and tags. */
const withoutTexts = (part: object): object =>
  JSON.parse(
    JSON.stringify(part, (key, value) =>
      ['description', 'example', 'headers', 'tags'].includes(key) ? undefined : value,
    ),
  );

export const factsOf = (document: OpenApiDocument) => ({
  paths: withoutTexts(dereference(document, SCHEMAS).paths),
  schemas: withoutTexts(document.components.schemas),
  removals: operationsOf(document).flatMap(({ operationId, description }) => {
    const [, date, successor] = /removed on (.*)\. Use `GET (.*)` with/.exec(description) ?? [];
    return date ? [[operationId, date, successor]] : [];
  }),
  codes: /: (.*)\. More/.exec(
    document.components.schemas['Error']?.properties?.['code']?.description ?? '',
  )?.[1],
  plans: [...document.info.description.matchAll(/^\| (\w+) \| ([\d,]+|custom) \| ([\d,]+|custom) \|$/gm)].map(
    (row) => row.slice(1),
  ),
  security: document.security,
  securitySchemes: withoutTexts(document.components.securitySchemes),
  basePath: document.servers[0]?.url,
});

export function factsOfContract(): ReturnType<typeof factsOf> {
  const paths: Record<string, Record<string, object>> = {};
  for (const [operationId, operation] of table) {
    const { method, path, summary, deprecated, success, errors } = operation;
    const parameters = parametersOf(operation);
    paths[path] = {
      ...paths[path],
      [method.toLowerCase()]: {
        ...{ operationId, summary },
        ...(deprecated && { deprecated: true }),
        ...(parameters.length > 0 && { parameters }),
        ...(operation.body && { requestBody: { required: true, content: contentOf(operation.body) } }),
        responses: Object.fromEntries([
          [success.status, { content: contentOf(success.body) }],
          ...errors.map((status) => [status, { content: contentOf(ErrorBody, examplesOf(status)) }]),
        ]),
      },
    };
  }
  return {
    paths,
    schemas: jsonSchemas(named),
    removals: table.flatMap(([name, { deprecated }]) =>
      deprecated ? [[name, deprecated.sunset.toUTCString(), deprecated.successor]] : [],
    ),
    codes: Object.keys(errorCodes).join(', '),
    plans: planNames.map((name) => {
      const { perMinute, perDay } = plans[name];
      // Enterprise quotas are agreed for each API key. The quotas in `plans` are only defaults.
      const quota =
        name === 'enterprise'
          ? ['custom', 'custom']
          : [perMinute, perDay].map((count) => count.toLocaleString('en-US'));
      return [name.charAt(0).toUpperCase() + name.slice(1), ...quota];
    }),
    security: [{ apiKey: [] }],
    securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } },
    basePath: API_PREFIX,
  };
}

/** The body of a request or response. Its schema needs a name, so that generated clients have a type for it. */
function contentOf(schema: z.ZodMiniType, examples?: Record<string, object>): Content {
  const name = Object.keys(named).find((each) => named[each] === schema);
  if (name === undefined) throw new Error('a schema without a name');
  return { 'application/json': { schema: { $ref: `${SCHEMAS}${name}` }, ...(examples && { examples }) } };
}

/** An example of each error code of a status. */
const examplesOf = (status: number) =>
  Object.fromEntries(
    (Object.keys(errorCodes) as ErrorCode[])
      .filter((code) => errorCodes[code] === status)
      .map((code) => [
        code,
        { summary: expect.any(String), value: { code, message: expect.any(String), status } },
      ]),
  );

function parametersOf({ params, query, acceptsIdempotencyKey }: Operation) {
  const of = (place: 'path' | 'query', schema: z.ZodMiniType | undefined) => {
    if (schema === undefined) return [];
    const { properties = {}, required = [] } = jsonSchemas({ ...named, [place]: schema })[place] as {
      properties?: Record<string, Schema>;
      required?: string[];
    };
    return Object.entries(properties).map(([name, each]) => ({
      ...{ name, in: place, required: required.includes(name) },
      // Because of the minimum, tools that generate requests ask for ids that an animal can have. Smaller ids get 404.
      schema: name === 'petId' ? { ...each, minimum: 1 } : each,
    }));
  };
  const key = {
    name: header.idempotencyKey,
    in: 'header',
    required: false,
    schema: { type: 'string', minLength: 1 },
  };
  return [...of('path', params), ...of('query', query), ...(acceptsIdempotencyKey ? [key] : [])];
}

const named: Record<string, z.ZodMiniType> = { Pet, NewPet, PetStatus, Pets, Error: ErrorBody, Orders };

const INT64 = { type: 'integer', format: 'int64' } as const;
// The schemas that zod cannot convert, because they validate with a function.
const checkedByFunction = new Map<z.core.$ZodType, Schema>([
  [int64._zod.def.in, INT64],
  [int64Text._zod.def.in, INT64],
  [
    PageLimit._zod.def.in,
    { type: 'integer', minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default },
  ],
]);

function jsonSchemas(schemas: Record<string, z.ZodMiniType>): Record<string, Schema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const made = z.toJSONSchema(registry, {
    io: 'input',
    uri: (id) => `${SCHEMAS}${id}`,
    unrepresentable: ({ zodSchema }) => checkedByFunction.get(zodSchema) ?? 'throw',
    override: ({ jsonSchema }) => {
      // zod gives every integer the bounds MIN_SAFE_INTEGER and MAX_SAFE_INTEGER: remove them.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return Object.fromEntries(
    Object.entries(made.schemas).map(([id, { $id, $schema, ...schema }]) => [id, schema as Schema]),
  );
}

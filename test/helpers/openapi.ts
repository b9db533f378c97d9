import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
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

export type Ref = { $ref: string };
export type Schema = {
  description?: string;
  required?: string[];
  properties?: Record<string, Schema>;
  [keyword: string]: unknown;
};
export type HeaderObject = { description: string; required: boolean; schema: Schema; example: unknown };
type Media = { schema: Ref; example?: unknown; examples?: Record<string, Ref> };
type Content = { 'application/json': Media };
type ResponseObject = { description: string; headers: Record<string, Ref>; content: Content };
type Parameter = {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  description: string;
  schema: Schema;
  example?: unknown;
};
export type OperationObject = {
  operationId: OperationName;
  summary: string;
  description: string;
  deprecated?: true;
  parameters?: Parameter[];
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, Ref | ResponseObject>;
};
export type OpenApiDocument = {
  info: { description: string };
  servers: { url: string; description: string }[];
  security: Record<string, string[]>[];
  paths: Record<string, Record<string, OperationObject>>;
  components: {
    schemas: Record<string, Schema>;
    responses: Record<string, ResponseObject>;
    headers: Record<string, HeaderObject>;
    examples: Record<string, { summary: string; value: { code: string; message: string; status: number } }>;
    securitySchemes: Record<string, { type: string; scheme: string }>;
  };
};

/** The OpenAPI document of the service, as it is in the repository. */
export const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../../src/server/openapi.json', import.meta.url), 'utf8'),
);

/** The operations of the contract. */
export const table = Object.entries(operations) as [OperationName, Operation][];

/** The operations of a document, each with its method, its path and its responses without references. */
export const operationsOf = ({ paths, components }: OpenApiDocument) =>
  Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
      parameters: operation.parameters ?? [],
      responses: Object.fromEntries(
        Object.entries(operation.responses).map(([status, response]) => [
          status,
          resolve(response, components.responses),
        ]),
      ),
    })),
  );

/** Returns what a reference refers to, by its name in a part of the components. */
export function resolve<Value extends object>(value: Value | Ref, part: Record<string, Value>): Value {
  if (!('$ref' in value)) return value;
  const found = part[nameOf(value as Ref)];
  if (found === undefined) throw new Error(`${(value as Ref).$ref} does not exist`);
  return found;
}

export const nameOf = ({ $ref }: Ref): string => $ref.replace(/^.*\//, '');

export const described = operationsOf(document);

/** The operation of the document with this operationId. */
export const describedAs = (name: OperationName) => {
  const found = described.find(({ operationId }) => operationId === name);
  if (!found) throw new Error(`${name} is not described`);
  return found;
};

/** Any JSON object of the OpenAPI document. Values that are not objects are cast where they are read. */
type Node = { [key: string]: Node };

export type Observed = { status: number; headers: Headers; text: string };

/** A value, its location for messages, and the schema that it must match. */
export type Sample = { where: string; schema: unknown; value: unknown };

/**
 * Validates responses against an OpenAPI 3.1 document.
 *
 * @param document the parsed JSON document
 */
export function conformance(document: unknown) {
  const root = document as Node;
  const ajv = new Ajv2020({ allErrors: true });
  addFormats.default(ajv);
  // Each schema is compiled together with the document's `components`, because schemas refer to them.
  ajv.addVocabulary(['components']);
  const compiled = new Map<unknown, ValidateFunction>();

  function resolve(node: Node): Node {
    const ref: unknown = node?.['$ref'];
    if (typeof ref !== 'string') return node;
    const target = ref
      .replace(/^#\//, '')
      .split('/')
      .reduce<Node | undefined>((at, key) => at?.[key.replaceAll('~1', '/').replaceAll('~0', '~')], root);
    if (target === undefined) throw new Error(`${ref} does not exist`);
    return resolve(target);
  }

  /** Validates a value; returns the errors. */
  function mismatches({ where, schema, value }: Sample): string[] {
    let validate = compiled.get(schema);
    if (validate === undefined) {
      validate = ajv.compile({ ...(schema as object), components: root['components'] });
      compiled.set(schema, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).map(({ instancePath, message }) => `${where}${instancePath} ${message}`);
  }

  /** The operations that the document has for a path. The keys are methods in lower case. */
  function itemAt(path: string): Node | undefined {
    // The URL is relative in the contract's document, and absolute in the one that a service serves.
    const { pathname: base } = new URL(String(root['servers']?.[0]?.['url']), 'http://service');
    const target = path.replace(/[?#].*/, '');
    return Object.entries(root['paths'] ?? {}).find(([template]) =>
      matchesTemplate(base + template, target),
    )?.[1];
  }

  /** Validates a response; returns the differences from the document. */
  function violations(method: string, path: string, response: Observed): string[] {
    const item = itemAt(path);
    if (item === undefined) return [`${path} is not documented`];
    const operation = item[(method === 'HEAD' ? 'GET' : method).toLowerCase()];
    // An undocumented method gets an error, whose status must be documented for another method of the path.
    if (!operation && response.status < 400) return [`${method} ${path} is not documented`];
    const found = (operation ? [operation] : Object.values(item))
      .map((each) => each['responses']?.[response.status])
      .find((each) => each !== undefined);
    if (found === undefined) return [`${method} ${path}: status ${response.status} is not documented`];
    const described = resolve(found);
    return [...headerViolations(described, response), ...bodyViolations(method, described, response)];
  }

  function headerViolations(described: Node, { headers }: Observed): string[] {
    const documented = Object.entries(described['headers'] ?? {});
    const names = documented.map(([name]) => name.toLowerCase());
    const unexpected = headersAnywhere().filter((name) => headers.has(name) && !names.includes(name));
    return [
      ...unexpected.map((name) => `${name} is documented, but not for this response`),
      ...documented.flatMap(([name, reference]) => {
        const { required, schema } = resolve(reference);
        const value = headers.get(name);
        if (value === null) return required ? [`${name} is missing`] : [];
        return mismatches({ where: name, schema, value: decodeHeader(value, resolve(schema as Node)) });
      }),
    ];
  }

  function bodyViolations(method: string, described: Node, { headers, text }: Observed): string[] {
    if (method === 'HEAD') return text === '' ? [] : ['a HEAD has no body'];
    const type = headers.get('content-type')?.split(';')[0]?.trim() ?? '(none)';
    const media = described['content']?.[type];
    if (media === undefined) return [`Content-Type ${type} is not documented`];
    const value = parseJson(text);
    if (value === undefined) return ['the body is not JSON'];
    return mismatches({ where: 'body', schema: media['schema'], value });
  }

  /** The names of all headers that the document has for any response. */
  function headersAnywhere(): string[] {
    const all = Object.values(root['paths'] ?? {})
      .flatMap((item) => Object.values(item))
      .flatMap((operation) => Object.values(operation['responses'] ?? {}))
      .flatMap((response) => Object.keys(resolve(response)['headers'] ?? {}));
    return [...new Set(all.map((name) => name.toLowerCase()))];
  }

  /** Every example in the document that has a schema. */
  function examples(node: Node = root, where = '#'): Sample[] {
    if (typeof node !== 'object' || node === null) return [];
    const { schema, example, examples: several = {} } = node as Node;
    const here =
      schema === undefined
        ? []
        : [
            ...(example === undefined ? [] : [{ where: `${where}/example`, schema, value: example }]),
            ...Object.entries(several).map(([name, each]) => ({
              where: `${where}/examples/${name}`,
              schema,
              value: resolve(each)['value'],
            })),
          ];
    return [...here, ...Object.entries(node).flatMap(([key, each]) => examples(each, `${where}/${key}`))];
  }

  return {
    violations,
    mismatches,
    examples: () => examples(),
    describes: (path: string) => itemAt(path) !== undefined,
  };
}

function matchesTemplate(template: string, path: string): boolean {
  const [parts, segments] = [template.split('/'), path.split('/')];
  return (
    parts.length === segments.length &&
    parts.every((part, i) => (part.startsWith('{') ? segments[i] !== '' : part === segments[i]))
  );
}

/** Converts a header to the type in its schema. Returns unsuitable text unchanged, so that the validation fails. */
function decodeHeader(text: string, { type }: Node): unknown {
  const kind: unknown = type;
  if (kind === 'integer' && /^-?\d+$/.test(text)) return Number(text);
  if (kind === 'boolean' && /^(?:true|false)$/.test(text)) return text === 'true';
  return text;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Compares the OpenAPI document with the contract. Both functions return the same facts in the same form: one reads them
// from a document, the other derives them from the tables of the contract. Texts are left out, except those that repeat
// a value of the contract.

/** What a document states about the service. */
export function factsOf(document: OpenApiDocument) {
  const { info, security, components } = document;
  const { examples, securitySchemes } = components;
  return {
    operations: operationsOf(document).map((operation) => {
      const { method, path, operationId, summary, description, parameters, requestBody } = operation;
      return {
        ...{ method, path, operationId, summary },
        deprecated: operation.deprecated === true,
        removal: /removed on (.*)\. Use `GET (.*)` with/.exec(description)?.slice(1),
        parameters: parameters.map(({ name, in: place, required, schema }) => ({
          ...{ name, place, required, schema },
        })),
        body: requestBody?.required && nameOf(requestBody.content['application/json'].schema),
        responses: Object.entries(operation.responses).map(([status, response]) => {
          const { schema, examples: codes = {} } = response.content['application/json'];
          return {
            status: Number(status),
            schema: nameOf(schema),
            codes: Object.values(codes).map((code) => resolve(code, examples).value.code),
          };
        }),
      };
    }),
    schemas: Object.entries(components.schemas)
      .map(([name, schema]) => ({ name, ...withoutDescriptions(schema) }))
      .sort(byName),
    codes: Object.entries(examples).map(([name, { value }]) => ({
      name,
      code: value.code,
      status: value.status,
    })),
    codeList: /: (.*)\. More/.exec(components.schemas['Error']?.properties?.['code']?.description ?? '')?.[1],
    plans: [...info.description.matchAll(/^\| (\w+) \| ([\d,]+|custom) \| ([\d,]+|custom) \|$/gm)].map(
      (row) => row.slice(1),
    ),
    security: security
      .flatMap((each) => Object.keys(each).map((name) => securitySchemes[name]))
      .map((scheme) => ({
        type: scheme?.type,
        scheme: scheme?.scheme,
      })),
    basePaths: document.servers[0]?.url,
  };
}

/** What the contract requires a document to state. */
export function factsOfContract(): ReturnType<typeof factsOf> {
  const codes = Object.keys(errorCodes) as ErrorCode[];
  // Only the developer tools have other codes.
  const codesOfOperations = codes.filter((code) =>
    table.some(([, { errors }]) => errors.includes(errorCodes[code])),
  );
  return {
    operations: table.map(([operationId, operation]) => {
      const { method, path, summary, deprecated, success, errors } = operation;
      return {
        ...{ method, path, operationId, summary },
        deprecated: deprecated !== undefined,
        removal: deprecated && [deprecated.sunset.toUTCString(), deprecated.successor],
        parameters: parametersOf(operation),
        body: operation.body && schemaName(operation.body),
        responses: [success.status, ...errors]
          .sort((a, b) => a - b)
          .map((status) => {
            const isError = status !== success.status;
            return {
              status,
              schema: isError ? 'Error' : schemaName(success.body),
              codes: isError ? codesOfOperations.filter((code) => errorCodes[code] === status) : [],
            };
          }),
      };
    }),
    schemas: Object.entries(jsonSchemas(named))
      .map(([name, schema]) => ({ name, ...schema }))
      .sort(byName),
    codes: codesOfOperations.map((code) => ({ name: code, code, status: errorCodes[code] })),
    codeList: codes.join(', '),
    plans: planNames.map((name) => {
      const { perMinute, perDay } = plans[name];
      // Enterprise quotas are agreed for each API key. The quotas in `plans` are only defaults.
      const quota =
        name === 'enterprise'
          ? ['custom', 'custom']
          : [perMinute, perDay].map((count) => count.toLocaleString('en-US'));
      return [name.charAt(0).toUpperCase() + name.slice(1), ...quota];
    }),
    security: [{ type: 'http', scheme: 'bearer' }],
    basePaths: API_PREFIX,
  };
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);

function withoutDescriptions({ description: _, ...schema }: Schema): Schema {
  if (schema.properties === undefined) return schema;
  const fields = Object.entries(schema.properties);
  return {
    ...schema,
    properties: Object.fromEntries(fields.map(([name, field]) => [name, withoutDescriptions(field)])),
  };
}

function parametersOf({ params, query, acceptsIdempotencyKey }: Operation) {
  const of = (place: 'path' | 'query', schema: z.ZodMiniType | undefined) => {
    if (schema === undefined) return [];
    const { properties = {}, required = [] } = jsonSchemas({ ...named, [place]: schema })[place] as Schema;
    return Object.entries(properties).map(([name, each]) => ({
      ...{ name, place, required: required.includes(name) },
      // Because of the minimum, tools that generate requests ask for ids that an animal can have. Smaller ids get 404.
      schema: name === 'petId' ? { ...each, minimum: 1 } : each,
    }));
  };
  const key = {
    name: header.idempotencyKey,
    place: 'header',
    required: false,
    schema: { type: 'string', minLength: 1 },
  } as const;
  return [...of('path', params), ...of('query', query), ...(acceptsIdempotencyKey ? [key] : [])];
}

const named: Record<string, z.ZodMiniType> = { Pet, NewPet, PetStatus, Pets, Error: ErrorBody, Orders };

/** The name of a body. Every body needs one, so that generated clients have a type for it. */
const schemaName = (schema: z.ZodMiniType): string =>
  Object.keys(named).find((name) => named[name] === schema) ?? '(a schema without a name)';

const INT64 = { type: 'integer', format: 'int64' };
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
    uri: (id) => `#/components/schemas/${id}`,
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

import * as z from 'zod/mini';
import { type ErrorCode, errorCodes } from '../../src/contract/error-codes.ts';
import { header } from '../../src/contract/headers.ts';
import { int64, int64Text } from '../../src/contract/int64.ts';
import { API_PREFIX, type Operation, PageLimit, pageSize } from '../../src/contract/operations.ts';
import { planNames, plans } from '../../src/contract/plans.ts';
import { ErrorBody, NewPet, Orders, Pet, PetStatus, Pets } from '../../src/contract/schemas.ts';
import { nameOf, type OpenApiDocument, operationsOf, resolve, type Schema, table } from './description.ts';

// Compares the OpenAPI document with the contract. Both functions return the same facts in the same form: one reads them
// from a document, the other derives them from the tables of the contract. Texts are left out, except those that repeat
// a value of the contract.

/** What a document states about the service. */
export function factsOf(document: OpenApiDocument) {
  const { info, security, components } = document;
  const { headers, examples, securitySchemes } = components;
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
            headers: Object.entries(response.headers)
              .map(([name, each]) => {
                const { required, schema } = resolve(each, headers);
                return { name, required, ...('const' in schema && { value: schema['const'] }) };
              })
              .sort(byName),
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
              headers: headersOf(operation, status).sort(byName),
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

// Errors with these statuses occur only after the operation is known. Others can lack the deprecation headers.
const AFTER_ROUTING = [401, 404, 410, 417, 429, 500, 503];

/** The headers that a response has (`required`) or may have. The two of a deprecation have fixed values. */
function headersOf({ success, query, acceptsIdempotencyKey, deprecated }: Operation, status: number) {
  const isSuccess = status === success.status;
  const always = (name: string) => ({ name, required: true });
  const sometimes = (name: string) => ({ name, required: false });
  const isKnown = isSuccess || AFTER_ROUTING.includes(status);
  return [
    ...[header.rateLimit, header.rateLimitRemaining, header.rateLimitReset, header.requestId].map(always),
    ...(status === 429 ? [always(header.retryAfter)] : []),
    ...(status === 503 ? [sometimes(header.retryAfter)] : []),
    ...(status === 401
      ? [always(header.wwwAuthenticate)]
      : [{ name: header.idempotencySupported, required: isSuccess, value: true }]),
    ...(status === 405 ? [always(header.allow)] : []),
    ...(isSuccess && acceptsIdempotencyKey
      ? [{ name: header.idempotencyReplayed, required: false, value: true }]
      : []),
    ...(isSuccess && query?.shape['cursor']
      ? [always(header.rateLimitPolicy), always(header.rateLimitWindows), sometimes(header.link)]
      : []),
    ...(deprecated
      ? [
          { name: header.deprecation, required: isKnown, value: `@${deprecated.since.getTime() / 1_000}` },
          { name: header.sunset, required: isKnown, value: deprecated.sunset.toUTCString() },
          { name: header.link, required: isKnown },
        ]
      : []),
  ];
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

import { readFileSync } from 'node:fs';
import { type Operation, type OperationName, operations } from '../../src/contract/operations.ts';

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

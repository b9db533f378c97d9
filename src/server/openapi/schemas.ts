import * as z from 'zod/mini';
import { int64, int64Text } from '../../contract/int64.ts';
import { type Operation, operations, PageLimit, pageSize } from '../../contract/operations.ts';
import { ErrorBody, NewPet, Orders, Pet, PetStatus, Pets } from '../../contract/schemas.ts';
import { fieldDescriptions, schemaDescriptions } from './descriptions.ts';

/** A JSON Schema (draft 2020-12), as used by OpenAPI 3.1. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type Ref = { $ref: string };

const named = { Pet, NewPet, PetStatus, Pets, Error: ErrorBody, Orders };
export type SchemaName = keyof typeof named;

export const INT64: JsonSchema = { type: 'integer', format: 'int64' };

// The JSON Schemas that zod cannot generate, because the zod schema validates with a function. If an entry is missing,
// toJsonSchemas() throws.
const checkedByFunction = new Map<z.core.$ZodType, JsonSchema>([
  [int64._zod.def.in, INT64],
  [int64Text._zod.def.in, INT64],
  [
    PageLimit._zod.def.in,
    { type: 'integer', minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default },
  ],
]);

export const refTo = (name: SchemaName): Ref => ({ $ref: `#/components/schemas/${name}` });

/** A reference to a schema of the contract. Every body needs a name, so that generated clients have a type for it. */
export function refOf(schema: z.ZodMiniType): Ref {
  const found = Object.entries(named).find(([, each]) => each === schema);
  if (!found) throw new Error('A body schema of the operations table is missing in `named`');
  return refTo(found[0] as SchemaName);
}

/** The schemas that the rest of the document refers to, by name. */
export function schemaComponents(): Record<string, JsonSchema> {
  const descriptions: Record<SchemaName, string> = schemaDescriptions;
  const schemas = toJsonSchemas(named);
  for (const name of Object.keys(named) as SchemaName[]) {
    schemas[name] = describeFields({ description: descriptions[name], ...schemas[name] });
  }
  return schemas;
}

/** The path and query parameters of an operation. */
export function parameterSchemas(operation: Operation) {
  return (['params', 'query'] as const).flatMap((part) => {
    const schema = operation[part];
    if (schema === undefined) return [];
    const { properties, required = [] } = toJsonSchemas({ ...named, [part]: schema })[part] as {
      properties: Record<string, JsonSchema>;
      required?: string[];
    };
    return Object.entries(properties).map(([name, each]) => ({
      name,
      in: part === 'params' ? 'path' : 'query',
      required: required.includes(name),
      schema: each,
    }));
  });
}

/** The entries of the operations table. `Object.entries` alone would lose the type of the names. */
export const tableEntries = () => Object.entries(operations) as [keyof typeof operations, Operation][];

function toJsonSchemas(schemas: Record<string, z.ZodMiniType>): Record<string, JsonSchema> {
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
    Object.entries(made.schemas).map(([id, { $id, $schema, ...schema }]) => [id, schema]),
  );
}

/** Adds descriptions to the fields, except those that refer to a described schema. */
function describeFields(schema: JsonSchema): JsonSchema {
  const properties = schema['properties'] as Record<string, JsonSchema> | undefined;
  if (properties === undefined) return schema;
  const described = Object.entries(properties).map(([name, field]) => {
    const description = fieldDescriptions[name];
    return [name, '$ref' in field || description === undefined ? field : { description, ...field }];
  });
  return { ...schema, properties: Object.fromEntries(described) };
}

import * as z from 'zod/mini';
import { int64, int64Text } from '../../contract/int64.ts';
import { type Operation, operations, PageLimit, pageSize } from '../../contract/operations.ts';
import { ApiError, NewPet, Orders, Pet, PetStatus, Pets } from '../../contract/schemas.ts';
import { fieldWords, schemaWords } from './words.ts';

/** A JSON Schema of draft 2020-12, as OpenAPI 3.1 has it. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type Ref = { $ref: string };

const named = { Pet, NewPet, PetStatus, Pets, Error: ApiError, Orders };
export type SchemaName = keyof typeof named;

export const INT64: JsonSchema = { type: 'integer', format: 'int64' };

// What a function checks cannot be derived from it. One that is missing here throws when the document is made.
const checkedByFunction = new Map<z.core.$ZodType, JsonSchema>([
  [int64._zod.def.in, INT64],
  [int64Text._zod.def.in, INT64],
  [
    PageLimit._zod.def.in,
    { type: 'integer', minimum: pageSize.min, maximum: pageSize.max, default: pageSize.default },
  ],
]);

export const refTo = (name: SchemaName): Ref => ({ $ref: `#/components/schemas/${name}` });

/** The reference to a schema of the contract. Every body has a name, so that generated clients have one for it. */
export function refOf(schema: z.ZodMiniType): Ref {
  const found = Object.entries(named).find(([, each]) => each === schema);
  if (!found) throw new Error('A body of the operations table has no name among the named schemas');
  return refTo(found[0] as SchemaName);
}

/** The schemas of bodies, by name. */
export function schemaComponents(): Record<string, JsonSchema> {
  const words: Record<SchemaName, string> = schemaWords;
  const schemas = toJsonSchemas(named);
  for (const name of Object.keys(named) as SchemaName[]) {
    schemas[name] = describeFields({ description: words[name], ...schemas[name] });
  }
  return schemas;
}

/** The parameters of an operation that its schemas have, in their order. */
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

/** The operations of the table, each with its name. */
export const tableEntries = () => Object.entries(operations) as [keyof typeof operations, Operation][];

function toJsonSchemas(schemas: Record<string, z.ZodMiniType>): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id });
  const made = z.toJSONSchema(registry, {
    io: 'input',
    uri: (id) => `#/components/schemas/${id}`,
    unrepresentable: ({ zodSchema }) => checkedByFunction.get(zodSchema) ?? 'throw',
    override: ({ jsonSchema }) => {
      // The bounds of an exact number: they say nothing of the value.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return Object.fromEntries(
    Object.entries(made.schemas).map(([id, { $id, $schema, ...schema }]) => [id, schema]),
  );
}

/** A field that is a reference has the words of what it refers to. */
function describeFields(schema: JsonSchema): JsonSchema {
  const properties = schema['properties'] as Record<string, JsonSchema> | undefined;
  if (properties === undefined) return schema;
  const described = Object.entries(properties).map(([name, field]) => {
    const words = fieldWords[name];
    return [name, '$ref' in field || words === undefined ? field : { description: words, ...field }];
  });
  return { ...schema, properties: Object.fromEntries(described) };
}

import {
  type OcsfMember,
  type OcsfShape,
  type OcsfType,
  ocsfClasses,
  ocsfObjects,
} from '../../vectors/ocsf.ts';

/** Everything in which an event differs from its class: a sentence for each. */
export function ocsfFaults(event: Record<string, unknown>): string[] {
  const shape = ocsfClasses[event['class_uid'] as number];
  if (shape === undefined) return [`class_uid: ${event['class_uid']} is no class`];
  return faultsOf(event, shape, '');
}

function faultsOf(value: Record<string, unknown>, shape: OcsfShape, path: string): string[] {
  const { members, atLeastOne } = shape;
  const faults = Object.entries(members).flatMap(([name, { isRequired }]) =>
    isRequired === true && value[name] === undefined ? [`${path}${name}: is required`] : [],
  );
  if (atLeastOne !== undefined && !atLeastOne.some((name) => value[name] !== undefined))
    faults.push(`${path}: has none of ${atLeastOne.join(', ')}`);
  for (const [name, found] of Object.entries(value)) {
    const member = members[name];
    if (member === undefined) faults.push(`${path}${name}: is no member`);
    else faults.push(...faultsOfMember(found, member, { path: `${path}${name}`, beside: value }));
  }
  return faults;
}

function faultsOfMember(
  value: unknown,
  { type, isList, enum: values, sibling }: OcsfMember,
  { path, beside }: { readonly path: string; readonly beside: Record<string, unknown> },
): string[] {
  if (isList === true) {
    if (!Array.isArray(value)) return [`${path}: is no list`];
    return value.flatMap((each, i) => faultsOfType(each, type, `${path}.${i}`));
  }
  const faults = faultsOfType(value, type, path);
  if (values === undefined) return faults;
  const caption = values[value as number];
  if (caption === undefined) faults.push(`${path}: ${value} is no value of the enum`);
  const text = sibling === undefined ? undefined : beside[sibling];
  // Other: the text says what the number cannot.
  if (value === 99 && (typeof text !== 'string' || text === '')) faults.push(`${path}: Other has no text`);
  if (value !== 99 && text !== undefined && text !== caption)
    faults.push(`${sibling}: ${text} is not the caption of ${value}, ${caption}`);
  return faults;
}

function faultsOfType(value: unknown, type: OcsfType, path: string): string[] {
  if (typeof type === 'object') {
    const shape = ocsfObjects[type.of];
    if (shape === undefined) return [`${path}: ${type.of} is not written down`];
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? faultsOf(value as Record<string, unknown>, shape, `${path}.`) : [`${path}: no object`];
  }
  return fits[type](value) ? [] : [`${path}: ${JSON.stringify(value)} is no ${type}`];
}

const fits: Readonly<Record<Exclude<OcsfType, object>, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  integer: (value) => Number.isInteger(value) && Math.abs(value as number) < 2 ** 31,
  long: (value) => Number.isSafeInteger(value),
  // Milliseconds since 1970, in this century.
  timestamp: (value) =>
    Number.isSafeInteger(value) &&
    (value as number) > 946_684_800_000 &&
    (value as number) < 4_102_444_800_000,
  boolean: (value) => typeof value === 'boolean',
  any: (value) => typeof value === 'object' && value !== null,
};

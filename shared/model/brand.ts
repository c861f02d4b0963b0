/**
 * A value of type T that only the parser of `Name` may make: ids, money and times cannot be mixed up by
 * accident.
 */
export type Branded<T, Name extends string> = T & { readonly __brand: Name };

import { describe, expect, it } from 'vitest';
import { piiTypes } from '../../../shared/model/constraints.ts';
import { limits } from '../../../shared/model/limits.ts';
import { findPersonalData } from '../../../shared/pii/find-personal-data.ts';
import { foldText } from '../../../shared/pii/fold-text.ts';

function found(written: string): string[] {
  const text = foldText(written);
  const checks = { left: limits.piiPhoneChecksMax, wereTooFew: false };
  return findPersonalData(text, '', piiTypes, checks).map(
    ({ start, end, type }) => `${type} ${text.slice(start, end)}`,
  );
}

describe('finding personal data', () => {
  it.each([
    ['?email=anna.berg%40example.se&lang=sv', 'email anna.berg%40example.se'],
    ['?to=jo%2Bx%40example.se&cc=kim%40example.no', 'email jo%2Bx%40example.se', 'email kim%40example.no'],
    ['?phone=%2B493023125001', 'phone %2B493023125001'],
    ['?phone=%2b49-30-23125001&x=1', 'phone %2b49-30-23125001'],
  ])('reads the percent-encoded %j', (text, ...expected) => expect(found(text)).toEqual(expected));

  it('takes a quoted local part that holds an @', () => {
    expect(found('to "jane@home"@example.com')).toEqual(['email "jane@home"@example.com']);
  });

  it.each(['/npm/%40types%2Fnode', 'pkg%401.2.3', 'a%40b', '%40example.com', '%2B12', '%2B999123456'])(
    'takes the percent-encoded %j for nothing',
    (text) => expect(found(text)).toEqual([]),
  );

  it.each([
    ['Tfno. 612 34 56 78', '612 34 56 78'],
    ['Τηλ.: 210 123 4567', '210 123 4567'],
    ['我的号码是13912345678', '13912345678'],
    ['Mi número es 655 123 456', '655 123 456'],
  ])('recognises the announcement of a phone number in %j', (text, number) =>
    expect(found(text)).toEqual([`phone ${number}`]),
  );

  it.each([
    ...['call 20241120 again', 'conference call pin 51234567', 'mobile build 20240115', 'parcel 655 123 456'],
    ...['your number 655 123 456', 'Bestellnummer: 030-23125001', 'order number 415-555-0132'],
    'SIN 046 454 286',
  ])('recognises none in %j', (text) => expect(found(text)).toEqual([]));

  it('takes numbers that a hyphen joins to more for identifiers, not for social security numbers', () => {
    expect(found('lot 457-55-5462-A')).toEqual([]);
    expect(found('457-55-5462 - A')).toEqual(['us_ssn 457-55-5462']);
  });

  it('takes four numbers in the name of a package for a version', () => {
    expect(found('foo-203.0.113.4.tar.gz')).toEqual([]);
    expect(found('from 203.0.113.4. Target unknown')).toEqual(['ip_address 203.0.113.4']);
  });
});

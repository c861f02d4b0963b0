/**
 * A segment of the spool as builds until 2026-11-22 wrote it, byte for byte: three records, each in a frame
 * of its own. A sidecar that is upgraded finds such files in its folder and must ship them.
 */
export const earlierSegment: Uint8Array = Buffer.from(
  [
    'wJeEY0gCAAABAAAAAAAAAHsiaWQiOiJhdHRfMDFrMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDEiLCJjaGFpbl9pZCI6InBhc3Nf',
    'MDFrMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDEiLCJwYXNzcG9ydF9pZCI6InBhc3NfMDFrMDAwMDAwMDAwMDAwMDAwMDAwMDAw',
    'MDEiLCJnYXRlX2lkIjoiZ2F0ZV8wMWswMDAwMDAwMDAwMDAwMDAwMDAwMDAwMiIsImRlY2lzaW9uIjoiUEVSTUlUIiwicmVh',
    'c29uIjpudWxsLCJyZXF1ZXN0X2hhc2giOiJzaGEyNTY6MGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEw',
    'YTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYSIsInBlcm1pc3Npb25fa2V5Ijoib3JkZXJzOmNyZWF0ZSIsImFtb3VudF9taWNy',
    'b191c2QiOjEyNTAwMDAwLCJjb25zdHJhaW50c19ldmFsdWF0ZWQiOlsicGFzc3BvcnQiLCJ0cnVzdF9sZXZlbCIsImZyZXNo',
    'bmVzcyIsImlzc3VlciIsInBlcm1pc3Npb24iXSwicGlpIjpbXSwidGltZXN0YW1wX21zIjoxNzkzNDkxMjAwMDAxLCJ0b2tl',
    'bl9oYXNoIjoiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJh',
    'YiIsImNhbGxlcl9tb2RlIjoibGl2ZSJ9pRVxLHcCAAACAAAAAAAAAHsiaWQiOiJhdHRfMDFrMDAwMDAwMDAwMDAwMDAwMDAw',
    'MDAwMDIiLCJjaGFpbl9pZCI6InBhc3NfMDFrMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDEiLCJwYXNzcG9ydF9pZCI6InBhc3Nf',
    'MDFrMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDEiLCJnYXRlX2lkIjoiZ2F0ZV8wMWswMDAwMDAwMDAwMDAwMDAwMDAwMDAwMiIs',
    'ImRlY2lzaW9uIjoiQkxPQ0siLCJyZWFzb24iOiJwaWlfZGV0ZWN0ZWQiLCJyZXF1ZXN0X2hhc2giOiJzaGEyNTY6MGEwYTBh',
    'MGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYSIsInBlcm1pc3Npb25f',
    'a2V5Ijoib3JkZXJzOmNyZWF0ZSIsImFtb3VudF9taWNyb191c2QiOm51bGwsImNvbnN0cmFpbnRzX2V2YWx1YXRlZCI6WyJw',
    'YXNzcG9ydCIsInRydXN0X2xldmVsIiwiZnJlc2huZXNzIiwiaXNzdWVyIiwicGVybWlzc2lvbiJdLCJwaWkiOlt7InBvaW50',
    'ZXIiOiIvbsOkbWXigqzwn5iAIiwidHlwZSI6ImVtYWlsIn1dLCJ0aW1lc3RhbXBfbXMiOjE3OTM0OTEyMDAwMDIsInRva2Vu',
    'X2hhc2giOiJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFi',
    'IiwiY2FsbGVyX21vZGUiOiJsaXZlIn2EBnP5VQIAAAMAAAAAAAAAeyJpZCI6ImF0dF8wMWswMDAwMDAwMDAwMDAwMDAwMDAw',
    'MDAwMyIsImNoYWluX2lkIjoicGFzc18wMWswMDAwMDAwMDAwMDAwMDAwMDAwMDAwMSIsInBhc3Nwb3J0X2lkIjoicGFzc18w',
    'MWswMDAwMDAwMDAwMDAwMDAwMDAwMDAwMSIsImdhdGVfaWQiOiJnYXRlXzAxazAwMDAwMDAwMDAwMDAwMDAwMDAwMDAyIiwi',
    'ZGVjaXNpb24iOiJQRVJNSVQiLCJyZWFzb24iOm51bGwsInJlcXVlc3RfaGFzaCI6InNoYTI1NjowYTBhMGEwYTBhMGEwYTBh',
    'MGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhIiwicGVybWlzc2lvbl9rZXkiOiJvcmRl',
    'cnM6Y3JlYXRlIiwiYW1vdW50X21pY3JvX3VzZCI6MTI1MDAwMDAsImNvbnN0cmFpbnRzX2V2YWx1YXRlZCI6WyJwYXNzcG9y',
    'dCIsInRydXN0X2xldmVsIiwiZnJlc2huZXNzIiwiaXNzdWVyIiwicGVybWlzc2lvbiJdLCJwaWkiOltdLCJ0aW1lc3RhbXBf',
    'bXMiOjE3OTM0OTEyMDAwMDMsInRva2VuX2hhc2giOiJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFi',
    'YWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiIiwiY2FsbGVyX21vZGUiOiJsaXZlIiwidG9vayI6WzcsOF19',
  ].join(''),
  'base64',
);

export const earlierSegmentIds = [1, 2, 3].map((number) => `att_01k${'0'.repeat(22)}${number}`);

/**
 * A block as builds of 2026-11-24 wrote it: the records of one turn, of which the first and the third name
 * their members and refer to shared parts, and the second stands there as a whole. Same ids, passport and
 * gate as above.
 */
export const earlierSharingSegment: Uint8Array = Buffer.from(
  [
    'Zz+85bgFAMABAAAAAAAAAAMAAAB7ImlkIjoiYXR0XzAxazAwMDAwMDAwMDAwMDAwMDAwMDAwMDAxIiwicmVxdWVzdF9oYXNoIjoi',
    'c2hhMjU2OjBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEiLCJh',
    'bW91bnRfbWljcm9fdXNkIjoxMjUwMDAwMCwidGltZXN0YW1wX21zIjoxNzkzNDkxMjAwMDAxLCJ0b29rIjpbNyw4XSwiY2hhaW4i',
    'OjAsIm91dGNvbWUiOjB9LHsiaWQiOiJhdHRfMDFrMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDIiLCJyZXF1ZXN0X2hhc2giOiJzaGEy',
    'NTY6MGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYSIsImFtb3Vu',
    'dF9taWNyb191c2QiOm51bGwsInRpbWVzdGFtcF9tcyI6MTc5MzQ5MTIwMDAwMiwiY2hhaW5faWQiOiJwYXNzXzAxazAwMDAwMDAw',
    'MDAwMDAwMDAwMDAwMDAxIiwicGFzc3BvcnRfaWQiOiJwYXNzXzAxazAwMDAwMDAwMDAwMDAwMDAwMDAwMDAxIiwidG9rZW5faGFz',
    'aCI6ImFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWIiLCJnYXRl',
    'X2lkIjoiZ2F0ZV8wMWswMDAwMDAwMDAwMDAwMDAwMDAwMDAwMiIsImRlY2lzaW9uIjoiQkxPQ0siLCJyZWFzb24iOiJkb21haW5f',
    'bm90X2FsbG93ZWQiLCJwZXJtaXNzaW9uX2tleSI6Im9yZGVyczpjcmVhdGUiLCJjb25zdHJhaW50c19ldmFsdWF0ZWQiOlsicGFz',
    'c3BvcnQiLCJ0cnVzdF9sZXZlbCIsImZyZXNobmVzcyIsImlzc3VlciIsInBlcm1pc3Npb24iXSwicGlpIjpbXSwiY2FsbGVyX21v',
    'ZGUiOiJsaXZlIn0seyJpZCI6ImF0dF8wMWswMDAwMDAwMDAwMDAwMDAwMDAwMDAwMyIsInJlcXVlc3RfaGFzaCI6InNoYTI1Njow',
    'YTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhIiwiYW1vdW50X21p',
    'Y3JvX3VzZCI6bnVsbCwidGltZXN0YW1wX21zIjoxNzkzNDkxMjAwMDAzLCJjaGFpbiI6MCwib3V0Y29tZSI6MH17ImNoYWlucyI6',
    'W3siY2hhaW5faWQiOiJwYXNzXzAxazAwMDAwMDAwMDAwMDAwMDAwMDAwMDAxIiwicGFzc3BvcnRfaWQiOiJwYXNzXzAxazAwMDAw',
    'MDAwMDAwMDAwMDAwMDAwMDAxIiwidG9rZW5faGFzaCI6ImFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJhYmFiYWJh',
    'YmFiYWJhYmFiYWJhYmFiYWJhYmFiYWIifV0sIm91dGNvbWVzIjpbeyJnYXRlX2lkIjoiZ2F0ZV8wMWswMDAwMDAwMDAwMDAwMDAw',
    'MDAwMDAwMiIsImRlY2lzaW9uIjoiUEVSTUlUIiwicmVhc29uIjpudWxsLCJwZXJtaXNzaW9uX2tleSI6Im9yZGVyczpjcmVhdGUi',
    'LCJjb25zdHJhaW50c19ldmFsdWF0ZWQiOlsicGFzc3BvcnQiLCJ0cnVzdF9sZXZlbCIsImZyZXNobmVzcyIsImlzc3VlciIsInBl',
    'cm1pc3Npb24iXSwicGlpIjpbXSwiY2FsbGVyX21vZGUiOiJsaXZlIn1dfdwAAAAwAwAA/AMAAA==',
  ].join(''),
  'base64',
);

export const earlierGateId = 'gate_01k00000000000000000000002';

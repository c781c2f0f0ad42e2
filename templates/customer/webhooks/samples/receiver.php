<?php
// Receives webhooks and refuses what is not signed. It needs nothing but PHP.

// Compares over the bytes as they came, before anything reads them, in constant time.
function is_signed(string $body, string $signature): bool
{
    $expected = 'sha256=' . hash_hmac('sha256', $body, getenv('WEBHOOK_SECRET'));
    return hash_equals($expected, $signature);
}

$body = file_get_contents('php://input');
if (!is_signed($body, $_SERVER['HTTP_X_SIGNATURE_256'] ?? '')) {
    http_response_code(401);
    exit;
}
$event = json_decode($body, true)['event'];
error_log($event['id'] . ' ' . $event['kind']); // an id that you have seen before is a repeat
http_response_code(200);

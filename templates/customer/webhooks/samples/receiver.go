// Receives webhooks and refuses what is not signed. It needs nothing but Go.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
)

// isSigned compares over the bytes as they came, before anything reads them, in constant time.
func isSigned(body []byte, signature string) bool {
	mac := hmac.New(sha256.New, []byte(os.Getenv("WEBHOOK_SECRET")))
	mac.Write(body)
	expected := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	return hmac.Equal([]byte(expected), []byte(signature))
}

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !isSigned(body, r.Header.Get("X-Signature-256")) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var delivery struct {
		Event struct{ ID, Kind string }
	}
	if err := json.Unmarshal(body, &delivery); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	log.Println(delivery.Event.ID, delivery.Event.Kind) // an id that you have seen before is a repeat
}

func main() {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	http.HandleFunc("/", receive)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil))
}

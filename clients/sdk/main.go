// The SDK that openapi-generator generates for Go, used against the server; the first argument is its address, the second a token.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"

	sdk "check/reservations"
)

var client *sdk.APIClient

func newKey() string {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
	return hex.EncodeToString(random)
}

func must(holds bool, what string, found ...interface{}) {
	if !holds {
		fmt.Fprintln(os.Stderr, append([]interface{}{what}, found...)...)
		os.Exit(1)
	}
}

func body(item string, quantity int32, note string) sdk.CreateReservation {
	body := sdk.NewCreateReservation(item, quantity, "go")
	body.SetNote(note)
	return *body
}

func create(key string, body sdk.CreateReservation, prefer string) (*sdk.Reservation, *http.Response, error) {
	request := client.ReservationsAPI.CreateReservation(context.Background())
	return request.IdempotencyKey(`"` + key + `"`).Prefer(prefer).CreateReservation(body).Execute()
}

// The problem in an error, with an empty code where the answer was no problem document.
func problem(err error) sdk.Problem {
	var failed *sdk.GenericOpenAPIError
	if errors.As(err, &failed) {
		if problem, ok := failed.Model().(sdk.Problem); ok {
			return problem
		}
	}
	return sdk.Problem{}
}

func main() {
	configuration := sdk.NewConfiguration()
	configuration.Servers = sdk.ServerConfigurations{{URL: os.Args[1]}}
	client = sdk.NewAPIClient(configuration)
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Args[2])
	background := context.Background()
	key := newKey()

	policy, _, err := client.IdempotencyAPI.GetIdempotencyPolicy(background).Execute()
	must(err == nil && policy.RetentionMs > 0, "policy", err)

	made, response, err := create(key, body("ROOM", 1, ""), "wait=20")
	must(err == nil && response.StatusCode == 201 && made.Status == "confirmed", "create", err)
	must(strings.HasSuffix(response.Header.Get("Location"), made.Id), "location")
	etag := response.Header.Get("ETag")

	again, response, err := create(key, body("ROOM", 1, ""), "wait=20")
	must(err == nil && again.Id == made.Id && response.Header.Get("Idempotent-Replayed") == "true", "replay", err)

	slow := newKey()
	_, response, err = create(slow, body("SLOW-3", 1, ""), "respond-async")
	must(err == nil && response.StatusCode == 202, "respond-async", err)
	_, response, err = create(slow, body("SLOW-3", 1, ""), "wait=0")
	found := problem(err)
	must(response.StatusCode == 409 && found.Code == "key-in-progress" && found.Retry == "same_key", "409", found)
	must(response.Header.Get("Retry-After") != "", "retry-after")

	_, _, err = create(key, body("ROOM", 2, ""), "wait=20")
	found = problem(err)
	must(found.Status == 422 && found.Retry == "new_key" && reflect.DeepEqual(found.Mismatch, []string{"/quantity"}), "422", found)

	_, _, err = create(newKey(), body("ROOM", 0, ""), "wait=20")
	found = problem(err)
	must(found.Code == "request-invalid" && found.Errors[0].Pointer == "/quantity", "400", found)

	later := newKey()
	_, response, err = create(later, body("ROOM", 1, "proxy: 503 once"), "wait=20")
	must(problem(err).Status == 503 && response.Header.Get("Retry-After") == "1", "503", err)
	_, response, err = create(later, body("ROOM", 1, "proxy: 503 once"), "wait=20")
	must(err == nil && response.StatusCode == 201, "then success", err)

	// B67: the first answer is cut. Go's own transport may send it again, since it knows the header Idempotency-Key; else we do.
	cut := newKey()
	_, response, err = create(cut, body("ROOM", 1, "proxy: cut once"), "wait=20")
	if err != nil {
		_, response, err = create(cut, body("ROOM", 1, "proxy: cut once"), "wait=20")
	}
	must(err == nil && response.Header.Get("Idempotent-Replayed") == "true", "cut", err)

	_, response, err = create(newKey(), body("ROOM", 1, "proxy: text 502"), "wait=20")
	must(err != nil && response.StatusCode == 502 && problem(err).Code == "", "text 502", err)

	read, _, err := client.ReservationsAPI.GetReservation(background, made.Id).Execute()
	must(err == nil && read.Id == made.Id, "get", err)
	change := sdk.NewChangeReservation()
	change.SetQuantity(3)
	changing := client.ReservationsAPI.ChangeReservation(background, made.Id)
	changed, _, err := changing.IdempotencyKey(`"` + newKey() + `"`).IfMatch(etag).ChangeReservation(*change).Execute()
	must(err == nil && changed.Quantity == 3, "change", err)
	page, _, err := client.ReservationsAPI.ListReservations(background).Limit(100).Execute()
	must(err == nil && len(page.Items) > 0, "list", err)
	state, _, err := client.IdempotencyAPI.GetIdempotencyKey(background, key).Execute()
	must(err == nil && state.State == "completed", "key", err)
	response, err = client.ReservationsAPI.CancelReservation(background, made.Id).Execute()
	must(err == nil && response.StatusCode == 204, "cancel", err)
}
